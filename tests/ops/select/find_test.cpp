// NonZero, Compress and Unique on the processor against their references: types, shapes, threads, and what is found.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/found_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

constexpr DType types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::u8,     DType::i16,
                           DType::u16, DType::i32, DType::u32, DType::i64,  DType::u64, DType::boolean};

/// Some zeros, -0 among those of floating types, and values that repeat.
Tensor some(DType type, const Shape& shape, uint32_t seed, double share = 0.5) {
  std::mt19937 random(seed);
  Tensor t = Tensor::empty(DType::f32, shape);
  for (float& x : t.span<float>()) {
    const bool zero = std::uniform_real_distribution<double>(0, 1)(random) >= share;
    x = zero ? (random() % 2 ? 0.0f : -0.0f) : static_cast<float>(static_cast<int>(random() % 13) - (is_float(type) ? 6 : 0));
  }
  return t.cast(type);
}

const Shape shapes[] = {{1}, {7}, {3, 5}, {2, 1, 4, 1}, {1, 2, 3, 4, 5}, {40'000}, {100, 3, 151}};

TEST(NonZero, agrees_with_the_reference) {
  for (const DType type : types)
    for (const Shape& shape : shapes)
      for (const int threads : {1, 2, 5})
        EXPECT_THAT(agreeing(named("NonZero"), {some(type, shape, 3)}, 1, threads), ElementsAre("cpu", "reference"))
            << name(type) << to_string(shape) << threads;
}

TEST(NonZero, finds_nothing_and_everything) {
  for (const double share : {0.0, 1.0})
    EXPECT_THAT(agreeing(named("NonZero"), {some(DType::f32, {3, 9'000}, 3, share)}, 1, 3), ElementsAre("cpu", "reference"));
}

TEST(NonZero, takes_a_nan_for_something) {
  Tensor x = Tensor::of<float>({3}, {0.0f, std::nanf(""), -0.0f});
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    EXPECT_THAT(agreeing(named("NonZero"), {x.cast(type)}, 1, 1), ElementsAre("cpu", "reference")) << name(type);
}

TEST(Compress, agrees_with_the_reference_along_every_axis_and_over_all_elements) {
  for (const DType type : types) {
    for (const Shape& shape : shapes) {
      for (int64_t axis = -1; axis < static_cast<int64_t>(shape.size()); ++axis) {
        const int64_t extent = axis < 0 ? elements(shape) : shape[static_cast<size_t>(axis)];
        for (const int64_t flags : {extent, std::max<int64_t>(1, extent / 2)}) {
          const Node n = axis < 0 ? named("Compress") : named("Compress", {{"axis", axis}});
          EXPECT_THAT(agreeing(n, {some(type, shape, 5), some(DType::boolean, {flags}, 6)}, 1, 3),
                      ElementsAre("cpu", "reference"))
              << name(type) << to_string(shape) << axis << " " << flags;
        }
      }
    }
  }
}

TEST(Compress, takes_nothing_where_nothing_is_flagged) {
  EXPECT_THAT(
      agreeing(named("Compress", {{"axis", int64_t{0}}}), {some(DType::f32, {4, 6}, 1), some(DType::boolean, {4}, 1, 0)}, 1, 2),
      ElementsAre("cpu", "reference"));
}

TEST(Unique, agrees_with_the_reference_sorted_and_by_occurrence) {
  for (const DType type : types)
    for (const Shape& shape : shapes)
      for (const int64_t sorted : {0, 1})
        for (const size_t outputs : {size_t{1}, size_t{4}})
          EXPECT_THAT(agreeing(named("Unique", {{"sorted", sorted}}), {some(type, shape, 9, 0.9)}, outputs, 3),
                      ElementsAre("cpu", "reference"))
              << name(type) << to_string(shape) << sorted << outputs;
}

/// Five slices of 150 elements, the first and fourth alike; the others differ from them late, or by a NaN: in every place of the axis.
TEST(Unique, compares_whole_slices_wherever_their_axis_lies) {
  constexpr int64_t extent = 5, width = 150;
  std::vector<float> slices(extent * width);
  for (int64_t i = 0; i < extent * width; ++i) slices[static_cast<size_t>(i)] = static_cast<float>(i % width % 7);
  slices[1 * width + width - 1] = -1;
  slices[2 * width + 100] = 9;
  slices[4 * width + 70] = std::nanf("");
  for (const int64_t inner : {int64_t{1}, int64_t{3}, int64_t{75}, width}) {
    const int64_t outer = width / inner;
    Tensor x = Tensor::empty(DType::f32, {outer, extent, inner});
    for (int64_t s = 0; s < extent; ++s)
      for (int64_t i = 0; i < width; ++i)
        x.span<float>()[static_cast<size_t>((i / inner * extent + s) * inner + i % inner)] =
            slices[static_cast<size_t>(s * width + i)];
    for (const DType type : {DType::f32, DType::f64, DType::f16}) {
      Node node = named("Unique", {{"axis", int64_t{1}}});
      node.opset = 11;
      node.inputs = {static_cast<ValueId>(0)};
      for (int i = 1; i < 5; ++i) node.outputs.push_back(static_cast<ValueId>(i));
      const Tensor in[] = {x.cast(type)};
      const std::vector<Tensor> found = evaluate(node, in);
      EXPECT_EQ(found[0].shape(), (Shape{outer, 4, inner}));
      EXPECT_THAT(found[1].to_ints(), ElementsAre(1, 0, 2, 4)) << inner << name(type);
      EXPECT_THAT(found[2].to_ints(), ElementsAre(1, 0, 2, 1, 3)) << inner << name(type);
      EXPECT_THAT(found[3].to_ints(), ElementsAre(1, 2, 1, 1)) << inner << name(type);
    }
  }
}

/// Kernels rely on the rule, which therefore says what the reference would.
TEST(Unique, and_compress_have_an_axis_of_their_input_by_their_rules) {
  const auto rule = [](const std::string& op, int64_t axis, const std::vector<DType>& types, size_t outputs) {
    Node node = named(op, {{"axis", axis}});
    node.opset = 23;
    std::vector<TensorDesc> in, out(outputs);
    for (const DType type : types) {
      node.inputs.push_back(static_cast<ValueId>(in.size()));
      in.push_back({type, {3}, true, nullptr});
    }
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(static_cast<ValueId>(100 + i));
    infer(node, in, out);
  };
  const std::vector<DType> plain = {DType::f32}, flagged = {DType::f32, DType::boolean};
  for (const int64_t axis : {int64_t{1}, int64_t{-2}, int64_t{1} << 40}) {
    EXPECT_THROW(rule("Unique", axis, plain, 4), Error) << axis;
    EXPECT_THROW(rule("Compress", axis, flagged, 1), Error) << axis;
  }
  EXPECT_NO_THROW(rule("Unique", -1, plain, 4));
  EXPECT_NO_THROW(rule("Compress", 0, flagged, 1));
}

TEST(Unique, orders_extremes_and_numbers_of_many_digits) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::of<double>({9}, {1e300, -inf, 3, -1e-300, inf, 1e-300, -3, 0, -1e300});
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16})
    EXPECT_THAT(agreeing(named("Unique"), {x.cast(type)}, 4, 1), ElementsAre("cpu", "reference")) << name(type);
  const Tensor i =
      Tensor::of<int64_t>({6}, {std::numeric_limits<int64_t>::min(), -1, std::numeric_limits<int64_t>::max(), 0, 1, -1});
  EXPECT_THAT(agreeing(named("Unique"), {i}, 4, 1), ElementsAre("cpu", "reference"));
  Tensor many = Tensor::empty(DType::i64, {50'000});
  std::mt19937_64 random(4);
  for (int64_t& v : many.span<int64_t>()) v = static_cast<int64_t>(random());
  EXPECT_THAT(agreeing(named("Unique"), {many}, 4, 3), ElementsAre("cpu", "reference"));
}

}  // namespace
}  // namespace smelt::ops
