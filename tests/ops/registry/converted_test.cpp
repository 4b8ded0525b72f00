// Nodes of types that no kernel knows, by kernels of other types, against their references.
#include "ops/registry/converted.h"
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

constexpr DType integers[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};

/// A node whose constant inputs are those from `constants` on.
Trial trial(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes, size_t constants = 99) {
  Trial t;
  t.node = make_node(op, 0, attributes, 0);
  t.node.outputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) t.add(inputs[i], i >= constants && inputs[i].valid());
  return t;
}

/// Every kernel agrees with the reference, and there is one. `suffix`: what its configuration ends with.
void expect_kernel(Trial t, double tolerance, std::string_view suffix = "") {
  const Tensor want = expected(t);
  t.result(want.type(), want.shape());
  EXPECT_THAT(agree(t, want, tolerance), testing::Not(testing::IsEmpty()));
  Machine machine;
  machine.threads = 2;
  machine.isa = "avx2";
  const Offer o = offer(t.bound, machine);
  EXPECT_TRUE(o.candidates[0].config.ends_with(suffix)) << o.candidates[0].tactic << ' ' << o.candidates[0].config;
  // Chosen before, for other extents: found by its names alone.
  const ChosenTactic chosen{o.candidates[0].tactic, o.candidates[0].config};
  const Offer again = offer(t.bound, machine, {&chosen, false});
  EXPECT_TRUE(std::ranges::any_of(again.candidates, [&](const Candidate& c) { return c.config == chosen.config; }));
}

/// The ends of a type's range and what is around 0 and the powers of two, among random numbers.
Tensor extremes(DType type, const Shape& shape, uint32_t seed) {
  Tensor t = random_tensor(type, shape, seed, is_signed(type) ? -100 : 0, 120);
  const double high = std::ldexp(1, bits(type) - (is_signed(type) ? 1 : 0)), low = is_signed(type) ? -high : 0;
  const std::vector<double> ends = {low, low + 1, 0, 1, 2, high - 1, std::min(high - 1, 127.0), std::min(high - 1, 128.0)};
  const Tensor special = Tensor::of<double>({static_cast<int64_t>(ends.size())}, ends).cast(type);
  std::memcpy(t.raw(), special.raw(), static_cast<size_t>(std::min(t.nbytes(), special.nbytes())));
  return t;
}

Trial deform(DType type, bool computed, const Shape& image, int64_t group, int64_t offset_group, bool mask) {
  const int64_t rank = static_cast<int64_t>(image.size()) - 2, taps = int64_t{1} << rank;
  Shape w{6, image[1] / group}, offset{image[0], offset_group * taps * rank}, masks{image[0], offset_group * taps};
  for (int64_t d = 0; d < rank; ++d) {
    w.push_back(2);
    for (Shape* s : {&offset, &masks}) s->push_back(image[static_cast<size_t>(d) + 2] - 1);
  }
  Trial t = trial("DeformConv", {random_tensor(type, image, 1)},
                  {{"group", group}, {"offset_group", offset_group}, {"kernel_shape", Ints(static_cast<size_t>(rank), 2)}});
  t.add(random_tensor(type, w, 2), !computed);
  t.add(random_tensor(type, offset, 3, -2, 2), false);
  t.add(random_tensor(type, {6}, 4), !computed);
  if (mask) t.add(random_tensor(type, masks, 5), false);
  return t;
}

TEST(Converted, computes_16_bit_floats_in_f32_and_rounds_once) {
  for (const auto& [type, tolerance] : {std::pair{DType::f16, 1e-3}, std::pair{DType::bf16, 8e-3}}) {
    expect_kernel(deform(type, false, {1, 4, 7, 6}, 2, 2, true), tolerance, " as f32");
    expect_kernel(deform(type, true, {1, 4, 7, 6}, 1, 1, false), tolerance, " as f64");
    const Tensor scores = random_tensor(type, {6, 9, 4}, 1, -3, 0), weights = random_tensor(type, {9}, 2, 0.1, 1);
    const Tensor labels = random_tensor(DType::i64, {6, 4}, 3, 0, 8.99);
    for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
      for (const char* reduction : {"none", "sum", "mean"})
        expect_kernel(trial(op, {scores, labels, weights}, {{"reduction", std::string(reduction)}}), tolerance, " as f32");
    expect_kernel(trial("OneHot", {random_tensor(type, {7}, 1, -3, 9), i64({}, {6}), f32({2}, {0, 1})}, {}, 1), 0, " as f32");
  }
}

TEST(Converted, finds_f64_where_f32_has_no_kernel) {
  expect_kernel(deform(DType::f32, true, {2, 4, 7, 6}, 2, 1, true), 1e-6, " as f64");
  expect_kernel(deform(DType::f32, false, {1, 3, 4, 5, 4}, 1, 3, false), 1e-6, " as f64");
  expect_kernel(deform(DType::f64, false, {1, 4, 9}, 2, 2, true), 1e-12);
  expect_kernel(deform(DType::f64, true, {2, 4, 7, 6}, 2, 4, true), 1e-12);
}

TEST(Converted, sums_of_integers_wrap_in_their_own_type) {
  for (const DType type : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    SCOPED_TRACE(name(type));
    for (const char* equation : {"bij,bjk->bik", "bij,bjk->bki", "bij,bjk->b", "bij,bjk->ki", "bij->j", "bij,bjk,bk->b"}) {
      SCOPED_TRACE(equation);
      std::vector<Tensor> operands = {extremes(type, {3, 5, 7}, 1)};
      const std::string_view text = equation;
      if (std::ranges::count(text, ',') > 0) operands.push_back(extremes(type, {3, 7, 6}, 2));
      if (std::ranges::count(text, ',') == 2) operands.push_back(extremes(type, {3, 6}, 3));
      expect_kernel(trial("Einsum", operands, {{"equation", std::string(equation)}}), 0);
    }
    for (const Ints& strides : {Ints{1, 1}, Ints{2, 1}})
      expect_kernel(
          trial("Col2Im", {extremes(type, {2, 3 * 6, strides[0] == 1 ? 4 * 5 : 2 * 5}, 1), i64({2}, {5, 7}), i64({2}, {2, 3})},
                {{"strides", strides}}, 1),
          0);
  }
  Tensor some = Tensor::empty(DType::boolean, {1, 2 * 4, 4 * 4});
  for (int64_t i = 0; i < some.size(); ++i) some.data<bool>()[i] = i % 7 == 0;
  expect_kernel(trial("Col2Im", {some, i64({2}, {5, 5}), i64({2}, {2, 2})}, {}, 1), 0);
}

TEST(Converted, samples_integers_as_doubles) {
  for (const DType type : integers) {
    SCOPED_TRACE(name(type));
    const Tensor grid = random_tensor(DType::f32, {2, 4, 5, 2}, 2, -1.3, 1.3);
    for (const char* mode : {"linear", "nearest", "cubic"})
      for (const char* padding : {"zeros", "border", "reflection"})
        expect_kernel(trial("GridSample", {random_tensor(type, {2, 3, 6, 7}, 1, is_signed(type) ? -100 : 0, 120), grid},
                            {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}}),
                      0, " as f64");
  }
}

TEST(Converted, leaves_what_has_a_kernel_as_it_is) {
  Trial t = trial("Einsum", {random_tensor(DType::f32, {3, 4}, 1), random_tensor(DType::f32, {4, 5}, 2)},
                  {{"equation", std::string("ij,jk->ik")}});
  t.result(DType::f32, {3, 5});
  t.bound.node = &t.node;
  Machine machine;
  machine.isa = "avx2";
  for (const Candidate& c : offer(t.bound, machine).candidates) EXPECT_FALSE(is_converted(c.config)) << c.config;
}

}  // namespace
}  // namespace smelt::ops::test
