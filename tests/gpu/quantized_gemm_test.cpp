// Products of 8-bit integers on a GPU, held against the reference bit for bit.
#include "gpu_trial.h"

namespace smelt::ops {
namespace {

Tensor random_bytes(DType type, const Shape& shape, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, shape, seed, 0, 255.99) : random_tensor(type, shape, seed, -128, 127.99);
}

Tensor zero_point(DType type, int64_t unsigned_one = 117) {
  return Tensor::scalar<int64_t>(type == DType::u8 ? unsigned_one : -9).cast(type);
}

struct Shapes {
  Shape a, b;
};
const std::vector<Shapes> shapes = {{{7, 33}, {33, 19}},        {{1, 64}, {64, 40}},     {{2, 3, 5, 17}, {17, 8}},
                                    {{130, 704}, {704, 300}},   {{1, 1}, {1, 1}},        {{5, 2000}, {2000, 96}},
                                    {{2, 60, 132}, {132, 130}}, {{300, 256}, {256, 128}}};

/// The first few candidates give what the reference gives.
void expect_equal(Trial& t, size_t count = 3) {
  t.bound.node = &t.node;
  Offer o = offer(t.bound, gpu_machine());
  ASSERT_FALSE(o.candidates.empty()) << o.problem;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  for (size_t i = 0; i < std::min(count, o.candidates.size()); ++i) {
    SCOPED_TRACE(o.problem + " " + o.candidates[i].config);
    EXPECT_EQ(error(run_on_gpu(t, o.candidates[i])[0], want), 0);
  }
}

class GpuQuantizedGemm : public ::testing::TestWithParam<size_t> {
 protected:
  const Shapes& shape() const { return shapes[GetParam()]; }
};

TEST_P(GpuQuantizedGemm, requantizes_as_the_reference_does) {
  for (const DType type_a : {DType::u8, DType::i8})
    for (const DType type_b : {DType::u8, DType::i8})
      for (const bool by_column : {false, true}) {
        const int64_t n = shape().b.back();
        Trial t;
        t.node.op = "QLinearMatMul";
        t.add(random_bytes(type_a, shape().a, 1), false);
        t.add(Tensor::scalar(0.02f), true);
        t.add(zero_point(type_a), true);
        t.add(random_bytes(type_b, shape().b, 2), true);
        t.add(by_column ? random_tensor(DType::f32, {n}, 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
        t.add(by_column ? random_bytes(type_b, {n}, 4) : zero_point(type_b, 128), true);
        t.add(Tensor::scalar(0.3f), true);
        t.add(zero_point(type_a), true);
        t.result(type_a, expected(t).shape());
        expect_equal(t, by_column ? 1 : 2);
      }
}

TEST_P(GpuQuantizedGemm, gives_the_sums_of_integers) {
  for (const bool computed : {false, true})
    for (const bool zeros : {false, true}) {
      Trial t;
      t.node.op = "MatMulInteger";
      t.add(random_bytes(DType::u8, shape().a, 1), false);
      t.add(random_bytes(DType::i8, shape().b, 2), true);
      t.add(zero_point(DType::u8), !computed);
      if (zeros) t.add(random_bytes(DType::i8, {shape().b.back()}, 3), true);
      t.result(DType::i32, expected(t).shape());
      expect_equal(t, 2);
    }
}

/// By Hopper's own instructions: tiles, few rows, K split, on extents that no tile divides.
TEST(GpuQuantizedHopperGemm, requantizes_as_the_reference_does) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  struct Kind {
    DType a, b, y;
    bool by_column;
  };
  const Kind kinds[] = {{DType::u8, DType::i8, DType::u8, false},
                        {DType::i8, DType::i8, DType::i8, true},
                        {DType::u8, DType::u8, DType::u8, false},
                        {DType::u8, DType::i8, DType::i32, false}};
  for (const auto& [a, b] : {Shapes{{331, 528}, {528, 264}}, Shapes{{700, 144}, {144, 519}}, Shapes{{7, 2048}, {2048, 136}},
                             Shapes{{2, 20, 528}, {528, 72}}})
    for (const auto& [type_a, type_b, type_y, by_column] : kinds) {
      const int64_t n = b.back();
      Trial t;
      t.node.op = type_y == DType::i32 ? "MatMulInteger" : "QLinearMatMul";
      t.add(random_bytes(type_a, a, 1), false);
      if (type_y == DType::i32) {
        t.add(random_bytes(type_b, b, 2), true);
        t.add(zero_point(type_a), true);
      } else {
        t.add(Tensor::scalar(0.02f), true);
        t.add(zero_point(type_a), true);
        t.add(random_bytes(type_b, b, 2), true);
        t.add(by_column ? random_tensor(DType::f32, {n}, 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
        t.add(type_b == DType::u8 ? zero_point(type_b, 128) : Tensor::scalar<int64_t>(0).cast(type_b), true);
        t.add(Tensor::scalar(0.3f), true);
        t.add(zero_point(type_y), true);
      }
      t.result(type_y, expected(t).shape());
      t.bound.node = &t.node;
      Offer o = offer(t.bound, gpu_machine());
      std::erase_if(o.candidates, [](const Candidate& c) { return c.tactic != "hopper"; });
      ASSERT_GE(o.candidates.size(), 3u) << o.problem;
      const Tensor want = evaluate(t.node, t.inputs)[0];
      for (size_t i = 1; i < o.candidates.size(); ++i) o.candidates.erase(o.candidates.begin() + static_cast<std::ptrdiff_t>(i));
      std::vector<std::future<std::unique_ptr<Kernel>>> kernels;
      for (const Candidate& c : o.candidates) kernels.push_back(std::async(std::launch::async, c.prepare));
      for (size_t i = 0; i < kernels.size(); ++i) {
        SCOPED_TRACE(o.problem + " " + o.candidates[i].config);
        EXPECT_EQ(error(run_on_gpu(t, *kernels[i].get())[0], want), 0);
      }
    }
}

/// Weights whose zero points differ, but are of 8 bits less these.
TEST(GpuQuantizedHopperGemm, takes_zero_points_from_weights_that_hold_it) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  Trial t;
  t.node.op = "MatMulInteger";
  const int64_t n = 136;
  t.add(random_bytes(DType::u8, {200, 256}, 1), false);
  t.add(random_tensor(DType::u8, {256, n}, 2, 50, 150), true);
  t.add(zero_point(DType::u8), true);
  t.add(random_tensor(DType::u8, {n}, 3, 40, 160), true);
  t.result(DType::i32, expected(t).shape());
  t.bound.node = &t.node;
  Offer o = offer(t.bound, gpu_machine());
  std::erase_if(o.candidates, [](const Candidate& c) { return c.tactic != "hopper"; });
  ASSERT_FALSE(o.candidates.empty());
  const Tensor want = evaluate(t.node, t.inputs)[0];
  for (size_t i = 0; i < std::min<size_t>(3, o.candidates.size()); ++i)
    EXPECT_EQ(error(run_on_gpu(t, *o.candidates[i].prepare())[0], want), 0) << o.candidates[i].config;
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuQuantizedGemm, ::testing::Range(size_t{0}, shapes.size()));

TEST(GpuQuantizedGemmEpilogue, with_operands_of_two_types) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "QLinearMatMul";
  t.node.program = expr::Program::parse(
      "(in0:f32, in1:f32, in2:f16) { %3 = add(in0, in1):f32; %4 = cast(in2):f32; %5 = add(%3, %4):f32; %6 = relu(%5):f32; "
      "%7 = const(12.5):f32; %8 = mul(%6, %7):f32; %9 = const(3):f32; %10 = add(%8, %9):f32; %11 = round(%10):f32; "
      "%12 = cast(%11):u8; return %12 }");
  const int64_t n = 72;
  t.add(random_bytes(DType::u8, {3, 50, 160}, 1), false);
  t.add(random_bytes(DType::i8, {160, n}, 2), true);
  t.add(Tensor::scalar(0.02f), true);
  t.add(zero_point(DType::u8), true);
  t.add(random_tensor(DType::f32, {n}, 3, 0.001, 0.003), true);
  t.add(Tensor(), false);
  t.add(random_tensor(DType::f32, {n}, 4), false);
  t.add(random_tensor(DType::f16, {3, 50, n}, 5), false);
  t.result(DType::u8, {3, 50, n});
  expect_equal(t, 4);
}

}  // namespace
}  // namespace smelt::ops
