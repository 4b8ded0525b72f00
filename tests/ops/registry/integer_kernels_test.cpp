// Kernels of integers and of f64 that stand beside those of f32, against their references.
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

constexpr DType integers[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};

void expect_kernel(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes, double tolerance,
                   size_t constants = 99) {
  Trial t;
  t.node = make_node(op, 0, attributes, 0);
  for (size_t i = 0; i < inputs.size(); ++i) t.add(inputs[i], i >= constants);
  const Tensor want = expected(t);
  t.result(want.type(), want.shape());
  EXPECT_THAT(agree(t, want, tolerance), testing::Not(testing::IsEmpty()));
}

/// Both ends of a type's range, and numbers around 0.
Tensor values(DType type, const Shape& shape, uint32_t seed) {
  Tensor t = random_tensor(type, shape, seed, is_signed(type) ? -9 : 0, 9);
  const double high = std::ldexp(1, bits(type) - (is_signed(type) ? 1 : 0)), low = is_signed(type) ? -high : 0;
  const std::vector<double> ends = {low, low + 1, high - 1, high - 1, high / 2, high / 2 + 1};
  const Tensor special = Tensor::of<double>({6}, ends).cast(type);
  std::memcpy(t.raw(), special.raw(), static_cast<size_t>(special.nbytes()));
  return t;
}

TEST(IntegerKernels, shrink_by_whole_numbers_whatever_the_threshold) {
  for (const DType type : integers) {
    SCOPED_TRACE(name(type));
    for (const float lambd :
         {0.5f, 0.0f, 3.0f, 2.9f, -0.5f, -3.0f, 127.0f, 128.0f, -127.5f, 255.0f, 256.0f, 1e18f, -1e18f, 1e30f, -1e30f})
      for (const float bias : {0.0f, 0.1f, 1.9f, -1.9f, 130.0f, 300.0f, -300.0f, 70000.0f, 1e30f, -1e30f}) {
        SCOPED_TRACE(testing::Message() << "lambd " << lambd << " bias " << bias);
        expect_kernel("Shrink", {values(type, {3, 7}, 1)}, {{"lambd", lambd}, {"bias", bias}}, 0);
      }
  }
}

TEST(IntegerKernels, gemm_scales_sums_in_double) {
  for (const DType type : {DType::i32, DType::u32, DType::i64, DType::u64}) {
    SCOPED_TRACE(name(type));
    for (const auto& [alpha, beta] : {std::pair{1.0f, 1.0f}, std::pair{0.5f, 2.0f}, std::pair{-1.5f, 0.0f},
                                      std::pair{1.0f, 0.25f}, std::pair{0.0f, -3.0f}, std::pair{1e20f, 1.0f}}) {
      SCOPED_TRACE(testing::Message() << alpha << ' ' << beta);
      for (const Shape& c : {Shape{}, Shape{9}, Shape{5, 1}, Shape{5, 9}}) {
        const Attributes attributes = {{"alpha", alpha}, {"beta", beta}, {"transB", int64_t{1}}};
        Tensor bias = random_tensor(type, c, 3, 0, 90);
        expect_kernel("Gemm", {values(type, {5, 7}, 1), values(type, {9, 7}, 2), bias}, attributes, 0);
      }
      expect_kernel("Gemm", {values(type, {5, 7}, 1), values(type, {7, 40}, 2)}, {{"alpha", alpha}, {"beta", beta}}, 0);
    }
  }
}

TEST(IntegerKernels, the_mean_of_u64_has_no_sign) {
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 1}, Ints{2}, Ints{1, 2}}) {
    const Tensor x = random_tensor(DType::u64, {4, 5, 6}, 1, 1e18, 9e18);
    expect_kernel("ReduceMean", {x, i64({static_cast<int64_t>(axes.size())}, axes)}, {}, 0, 1);
  }
}

TEST(IntegerKernels, one_hot_knows_indices_without_a_sign) {
  Tensor at = Tensor::of<uint64_t>({5}, std::vector<uint64_t>{0, 3, 5, UINT64_MAX, UINT64_C(1) << 63});
  expect_kernel("OneHot", {at, i64({}, {6}), f32({2}, {0, 1})}, {}, 0, 1);
}

TEST(IntegerKernels, resize_in_double) {
  for (const DType type : {DType::i64, DType::u64, DType::boolean, DType::f64, DType::i32, DType::u8}) {
    SCOPED_TRACE(name(type));
    const Tensor x = random_tensor(type, {2, 3, 5, 4}, 1, is_signed(type) ? -100 : 0, type == DType::boolean ? 1.5 : 100);
    for (const char* mode : {"linear", "cubic"})
      for (const std::vector<float>& scales : {std::vector<float>{1, 1, 2, 3}, std::vector<float>{1, 2, 0.5f, 1}})
        expect_kernel("Resize", {x, f32({0}, {}), f32({4}, scales)}, {{"mode", std::string(mode)}},
                      type == DType::f64 ? 1e-12 : 0, 1);
  }
}

TEST(DoubleKernels, local_response_and_the_cross_entropy_loss) {
  for (const int64_t size : {1, 3, 4, 9})
    expect_kernel("LRN", {random_tensor(DType::f64, {2, 7, 5, 3}, 1, -3, 3)},
                  {{"size", size}, {"alpha", 0.3f}, {"beta", 0.6f}, {"bias", 1.5f}}, 1e-12);
  const Tensor scores = random_tensor(DType::f64, {6, 9, 4}, 1, -3, 3), weights = random_tensor(DType::f64, {9}, 2, 0.1, 1);
  const Tensor labels = random_tensor(DType::i64, {6, 4}, 3, 0, 8.99);
  for (const char* reduction : {"none", "sum", "mean"}) {
    expect_kernel("SoftmaxCrossEntropyLoss", {scores, labels, weights}, {{"reduction", std::string(reduction)}}, 1e-12);
    expect_kernel("SoftmaxCrossEntropyLoss", {scores, labels},
                  {{"reduction", std::string(reduction)}, {"ignore_index", int64_t{3}}}, 1e-12);
  }
}

TEST(DoubleKernels, batch_normalization_by_constants_and_computed_statistics) {
  for (const size_t constants : {size_t{1}, size_t{99}})
    for (const Shape& x : {Shape{2, 3, 9, 8}, Shape{2, 3, 2}, Shape{4, 3}})
      expect_kernel("BatchNormalization",
                    {random_tensor(DType::f64, x, 1), random_tensor(DType::f64, {3}, 2), random_tensor(DType::f64, {3}, 3),
                     random_tensor(DType::f64, {3}, 4), random_tensor(DType::f64, {3}, 5, 0.5, 2)},
                    {}, 1e-13, constants);
}

TEST(DoubleKernels, attention_with_and_without_a_program) {
  for (const bool transposed : {false, true})
    for (const std::string program : {"", "(in0:f64, in1:f64) { %2 = add(in0, in1):f64; return %2 }"})
      for (const int64_t queries : {1, 5, 130}) {
        SCOPED_TRACE(testing::Message() << program << ' ' << queries << ' ' << transposed);
        Trial t;
        t.node = make_node("Attention", 0, {{"scale", 0.3f}, {"k_transposed", int64_t{transposed}}, {"nan_guard", int64_t{1}}}, 0,
                           std::string(smelt_domain));
        t.add(random_tensor(DType::f64, {2, 4, queries, 7}, 1), false);
        t.add(random_tensor(DType::f64, transposed ? Shape{2, 2, 7, 300} : Shape{2, 2, 300, 7}, 2), false);
        t.add(random_tensor(DType::f64, {2, 2, 300, 9}, 3), false);
        if (!program.empty()) t.add(random_tensor(DType::f64, {1, 4, queries, 300}, 4), false);
        t.compute(program, DType::f64);
        const Tensor want = expected(t);
        t.result(DType::f64, want.shape());
        EXPECT_THAT(agree(t, want, 1e-12, 3), testing::Contains("cpu"));
      }
}

}  // namespace
}  // namespace smelt::ops::test
