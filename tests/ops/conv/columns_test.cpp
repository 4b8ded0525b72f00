// Convolutions as products with columns: of f64, and ConvInteger by computed weights, against their references.
#include <random>

#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

struct Case {
  Shape x, w;
  Attributes attributes;
};

std::vector<Case> plain_cases() {
  return {
      {{2, 3, 9, 8}, {4, 3, 3, 3}, {}},
      {{1, 4, 9, 8}, {6, 2, 3, 2}, {{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}}},
      {{1, 5, 7, 7}, {5, 1, 3, 3}, {{"group", int64_t{5}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 1}}}},
      {{3, 4, 17}, {3, 4, 5}, {{"pads", Ints{9, 7}}, {"strides", Ints{2}}}},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {{"pads", Ints{0, 1, 0, 1, 1, 2}}, {"strides", Ints{1, 2, 1}}}},
      {{1, 3, 40, 50}, {2, 3, 1, 1}, {}},
      {{1, 1, 3, 3}, {70, 1, 3, 3}, {{"auto_pad", std::string("SAME_LOWER")}}},
      {{1, 2, 6, 70}, {3, 2, 3, 3}, {{"pads", Ints{40, 40, 40, 40}}, {"dilations", Ints{19, 9}}}},
  };
}

void expect_agreement(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes, bool constant,
                      double tolerance) {
  for (const int threads : {1, 2, 3}) {
    Trial t;
    t.node = make_node(op, 0, attributes, 0);
    for (size_t i = 0; i < inputs.size(); ++i) t.add(inputs[i], i > 0 && constant);
    const Tensor want = expected(t);
    t.result(want.type(), want.shape());
    EXPECT_THAT(agree(t, want, tolerance, threads), testing::Contains("cpu"));
  }
}

Tensor any_bytes(DType type, const Shape& s, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, s, seed, 0, 255.99) : random_tensor(type, s, seed, -128, 127.99);
}

TEST(ConvColumns, agrees_in_f64) {
  for (const Case& c : plain_cases()) {
    SCOPED_TRACE(to_string(c.x) + to_string(c.w));
    const Tensor x = random_tensor(DType::f64, c.x, 1), w = random_tensor(DType::f64, c.w, 2);
    for (const bool constant : {false, true}) {
      expect_agreement("Conv", {x, w}, c.attributes, constant, 1e-13);
      expect_agreement("Conv", {x, w, random_tensor(DType::f64, {c.w[0]}, 3)}, c.attributes, constant, 1e-13);
    }
  }
}

TEST(ConvColumns, agrees_transposed_in_f64) {
  const Case cases[] = {
      {{2, 3, 5, 4}, {3, 4, 3, 3}, {}},
      {{1, 4, 5, 4}, {4, 3, 3, 2}, {{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}}},
      {{1, 6, 7}, {6, 1, 4}, {{"group", int64_t{6}}, {"strides", Ints{2}}, {"output_padding", Ints{1}}, {"dilations", Ints{3}}}},
      {{1, 2, 3, 4, 2}, {2, 3, 2, 2, 3}, {{"strides", Ints{1, 2, 2}}, {"pads", Ints{1, 0, 0, 0, 1, 2}}}},
      {{2, 2, 64, 64}, {2, 40, 2, 2}, {{"strides", Ints{2, 2}}}},
      {{1, 3, 5, 5}, {3, 2, 3, 3}, {{"output_shape", Ints{10, 11}}, {"strides", Ints{2, 2}}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.x) + to_string(c.w));
    const int64_t m = c.w[1] * (c.attributes.contains("group") ? std::get<int64_t>(c.attributes.at("group")) : 1);
    const Tensor x = random_tensor(DType::f64, c.x, 1), w = random_tensor(DType::f64, c.w, 2);
    expect_agreement("ConvTranspose", {x, w}, c.attributes, true, 1e-13);
    expect_agreement("ConvTranspose", {x, w, random_tensor(DType::f64, {m}, 3)}, c.attributes, false, 1e-13);
  }
}

TEST(ConvColumns, agrees_for_integers_by_computed_weights) {
  for (const Case& c : plain_cases()) {
    for (const DType a : {DType::u8, DType::i8})
      for (const DType b : {DType::u8, DType::i8}) {
        SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(a)) + std::string(name(b)));
        const Tensor x = any_bytes(a, c.x, 1), w = any_bytes(b, c.w, 2);
        expect_agreement("ConvInteger", {x, w}, c.attributes, false, 0);
        expect_agreement("ConvInteger", {x, w, any_bytes(a, {}, 3)}, c.attributes, false, 0);
        expect_agreement("ConvInteger", {x, w, any_bytes(a, {}, 3), any_bytes(b, {}, 4)}, c.attributes, false, 0);
        expect_agreement("ConvInteger", {x, w, any_bytes(a, {1}, 3), any_bytes(b, {c.w[0]}, 4)}, c.attributes, false, 0);
      }
  }
}

TEST(IntegerConv, few_channels_of_computed_weights_go_directly) {
  for (const bool constant : {true, false}) {
    Trial t;
    t.node = make_node("ConvInteger", 0, {}, 0);
    t.add(any_bytes(DType::u8, {1, 2, 9, 40}, 1), false);
    t.add(any_bytes(DType::i8, {3, 2, 3, 3}, 2), constant);
    t.result(DType::i32, {1, 3, 7, 38});
    t.bound.node = &t.node;
    const Offer o = offer(t.bound, Machine{});
    EXPECT_TRUE(std::ranges::any_of(o.candidates, [](const Candidate& c) { return c.config == "direct"; }));
  }
}

TEST(IntegerConv, has_one_zero_point_of_its_weights_or_one_for_each_channel) {
  const Node node = make_node("ConvInteger", 0, {}, 1);
  const auto shape_with = [&](int64_t zeros) {
    std::vector<TensorDesc> outputs(1);
    infer(
        node,
        std::vector<TensorDesc>{
            {DType::u8, {1, 1, 3, 3}, true}, {DType::u8, {2, 1, 2, 2}, true}, {DType::u8, {}, true}, {DType::u8, {zeros}, true}},
        outputs);
    return outputs[0].shape;
  };
  EXPECT_EQ(shape_with(1), (Shape{1, 2, 2, 2}));
  EXPECT_EQ(shape_with(2), (Shape{1, 2, 2, 2}));
  for (const int64_t zeros : {0, 3, 100}) EXPECT_THROW(shape_with(zeros), Error) << zeros;
}

/// Kernels chosen for the one would be sought, or slower, for the other.
TEST(IntegerConv, problems_say_what_is_constant) {
  const auto problem = [](std::initializer_list<bool> constant) {
    const std::vector<Tensor> in{any_bytes(DType::u8, {1, 2, 9, 40}, 1), any_bytes(DType::i8, {3, 2, 3, 3}, 2),
                                 any_bytes(DType::u8, {}, 3), any_bytes(DType::i8, {3}, 4)};
    Trial t;
    t.node = make_node("ConvInteger", 0, {}, 0);
    for (size_t i = 0; i < in.size(); ++i) t.add(in[i], constant.begin()[i]);
    t.result(DType::i32, {1, 3, 7, 38});
    t.bound.node = &t.node;
    return offer(t.bound, Machine{}).problem;
  };
  EXPECT_EQ(problem({false, true, true, true}),
            "ConvInteger:u8[1,2,9,40],i8[3,2,3,3]=constant,u8[]=constant,i8[3]=constant>i32[1,3,7,38]");
  EXPECT_EQ(problem({false, false, false, true}), "ConvInteger:u8[1,2,9,40],i8[3,2,3,3],u8[],i8[3]=constant>i32[1,3,7,38]");
}

TEST(IntegerConv, rows_of_one_channel_are_estimated_with_their_copies) {
  Trial t;
  t.node = make_node("ConvInteger", 0, {{"strides", Ints{1, 3}}, {"pads", Ints{0, 1, 0, 1}}}, 0);
  t.add(any_bytes(DType::u8, {33, 1, 63, 129}, 1), false);
  t.add(any_bytes(DType::u8, {2, 1, 1, 2}, 2), true);
  t.result(DType::i32, {33, 2, 63, 44});
  t.bound.node = &t.node;
  double direct = 0, rows = 1e9;
  for (const Candidate& c : offer(t.bound, Machine{}).candidates) {
    if (c.config == "direct") direct = c.estimate_us;
    if (c.config.ends_with("rows")) rows = std::min(rows, c.estimate_us);
  }
  EXPECT_GT(direct, 0);
  EXPECT_LT(direct, rows);
}

TEST(IntegerConv, sums_wrap_however_many_products_they_have) {
  for (const int64_t group : {1, 2}) {  // products of columns; directly
    Trial t;
    t.node = make_node("ConvInteger", 0, {{"group", group}}, 0);
    t.add(random_tensor(DType::u8, {1, group * 20000, 3, 3}, 1, 200, 255.99), false);
    t.add(random_tensor(DType::u8, {2 * group, 20000, 2, 2}, 2, 200, 255.99), true);
    const Tensor want = expected(t);
    t.result(want.type(), want.shape());
    EXPECT_FALSE(agree(t, want, 0, 2).empty());
  }
}

TEST(IntegerConv, agrees_where_groups_are_small) {
  const Case cases[] = {
      {{1, 5, 7, 7}, {5, 1, 3, 3}, {{"group", int64_t{5}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 1}}}},
      {{2, 6, 9, 41}, {12, 3, 3, 2}, {{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}}},
      {{1, 3, 33, 70}, {3, 1, 5, 5}, {{"group", int64_t{3}}, {"pads", Ints{2, 2, 2, 2}}, {"strides", Ints{1, 2}}}},
      {{1, 4, 20, 17}, {4, 2, 3, 4}, {{"group", int64_t{2}}, {"dilations", Ints{3, 5}}, {"strides", Ints{3, 1}}}},
      {{3, 70, 33}, {70, 1, 3}, {{"group", int64_t{70}}, {"pads", Ints{1, 1}}}},
      {{1, 4, 4, 5, 19}, {4, 1, 2, 3, 3}, {{"group", int64_t{4}}, {"pads", Ints{0, 1, 0, 1, 1, 2}}, {"strides", Ints{1, 2, 1}}}},
      {{1, 2, 4, 6}, {2, 1, 3, 3}, {{"group", int64_t{2}}, {"pads", Ints{7, 8, 7, 8}}, {"strides", Ints{3, 5}}}},
      {{1, 600, 20, 21}, {2, 300, 3, 3}, {{"group", int64_t{2}}}},  // channels are widened a part at a time
  };
  for (const Case& c : cases) {
    for (const DType a : {DType::u8, DType::i8})
      for (const DType b : {DType::u8, DType::i8}) {
        SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(a)) + std::string(name(b)));
        const Tensor x = any_bytes(a, c.x, 1), w = any_bytes(b, c.w, 2);
        for (const bool constant : {true, false}) {
          expect_agreement("ConvInteger", {x, w}, c.attributes, constant, 0);
          expect_agreement("ConvInteger", {x, w, any_bytes(a, {}, 3), any_bytes(b, {c.w[0]}, 4)}, c.attributes, constant, 0);
        }
      }
  }
}

/// Lines that end within a block, are stored one by one or all at once, and windows of one row.
TEST(IntegerConv, agrees_over_drawn_lines_and_windows) {
  std::mt19937 draw(17);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(draw() % static_cast<uint32_t>(high - low + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const int64_t kh = i % 3 == 2 ? pick(2, 3) : 1, kw = pick(1, 5), group = i % 5 == 4 ? 2 : 1, channels = pick(1, 4);
    const Case c = {{pick(1, 3), group * channels, kh + pick(0, 4), kw + pick(0, 139)},
                    {group * pick(1, 9), channels, kh, kw},
                    {{"group", group},
                     {"pads", Ints{pick(0, 1), pick(0, 2), pick(0, 1), pick(0, 2)}},
                     {"strides", Ints{pick(1, 2), pick(1, 3)}}}};
    const DType a = pick(0, 1) ? DType::u8 : DType::i8, b = pick(0, 1) ? DType::u8 : DType::i8;
    SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(a)) + std::string(name(b)));
    const Tensor x = any_bytes(a, c.x, 1), w = any_bytes(b, c.w, 2);
    expect_agreement("ConvInteger", {x, w, any_bytes(a, {}, 3), any_bytes(b, {}, 4)}, c.attributes, pick(0, 1) == 1, 0);
  }
}

}  // namespace
}  // namespace smelt::ops::test
