#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape joined{1, 12, 6, 8}, result{1, 5, 6, 8};

/// x [1, 3, 12, 16] → Conv "conv" (12 → 5 channels, 3 x 3, same size) of its pixels taken apart.
struct PixelsBuilder : Builder {
  ValueId x = input("x", {1, 3, 12, 16});

  ValueId slice(const std::string& name, ValueId v, int64_t axis, int64_t start, SymShape shape, int64_t step = 2,
                int64_t end = INT64_MAX) {
    return node(name, "Slice", {v, ints({start}), ints({end}), ints({axis}), ints({step})}, std::move(shape));
  }
  /// The four slices in YOLO's order: rows first, then columns.
  std::vector<ValueId> slices() {
    const ValueId even = slice("even", x, 2, 0, {1, 3, 6, 16}), odd = slice("odd", x, 2, 1, {1, 3, 6, 16});
    const SymShape quarter{1, 3, 6, 8};
    return {slice("tl", even, 3, 0, quarter), slice("bl", odd, 3, 0, quarter), slice("tr", even, 3, 1, quarter),
            slice("br", odd, -1, 1, quarter)};
  }
  ValueId concat(std::vector<ValueId> parts, int64_t axis = 1) {
    return node("join", "Concat", std::move(parts), joined, DType::f32, {{"axis", axis}});
  }
  void conv(ValueId v, std::map<std::string, Attribute> attrs = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}},
            SymShape shape = result) {
    output(node("conv", "Conv", {v, weights("w", {5, 12, 3, 3}), weights("b", {5})}, std::move(shape), DType::f32,
                std::move(attrs)));
  }
  std::string outcome() const { return verdict(*this, space_to_depth_conv, "conv"); }
};

void expect_one_conv(Builder& b) {
  const Graph before = clone(b.g);
  apply_match(b, space_to_depth_conv, "conv");
  run_only(b.g, "dead_code");
  EXPECT_EQ(count(b.g, "Slice") + count(b.g, "Concat") + count(b.g, "SpaceToDepth"), 0u);
  EXPECT_EQ(b.g.constant(b["conv"], 1).shape(), (Shape{5, 3, 6, 6}));
  expect_same_outputs(before, b.g);
}

TEST(SpaceToDepthConv, reads_the_image_that_slices_took_apart) {
  PixelsBuilder b;
  b.conv(b.concat(b.slices()));
  expect_one_conv(b);
}

TEST(SpaceToDepthConv, keeps_strides_and_uneven_pads) {
  PixelsBuilder b;
  b.conv(b.concat(b.slices()), {{"strides", std::vector<int64_t>{2, 1}}, {"pads", std::vector<int64_t>{0, 2, 1, 0}}},
         {1, 5, 3, 8});
  expect_one_conv(b);
}

TEST(SpaceToDepthConv, takes_slices_in_any_order_and_along_both_axes_at_once) {
  PixelsBuilder b;
  const auto both = [&](const std::string& name, int64_t y, int64_t x) {
    return b.node(name, "Slice", {b.x, b.ints({y, x}), b.ints({12, 16}), b.ints({2, 3}), b.ints({2, 2})}, {1, 3, 6, 8});
  };
  b.conv(b.concat({both("d", 1, 1), both("b", 0, 1), both("c", 1, 0), both("a", 0, 0)}));
  expect_one_conv(b);
}

TEST(SpaceToDepthConv, takes_the_operator) {
  PixelsBuilder b;
  b.conv(b.node("join", "SpaceToDepth", {b.x}, joined, DType::f32, {{"blocksize", int64_t{2}}}));
  expect_one_conv(b);
}

/// What ONNX's inference refuses, and `explain` does not look at: the square of the last is 0.
TEST(SpaceToDepthConv, stays_apart_with_blocks_that_there_are_not) {
  for (const int64_t block : {int64_t{0}, int64_t{-2}, int64_t{1} << 31, int64_t{1} << 32}) {
    PixelsBuilder b;
    b.conv(b.node("join", "SpaceToDepth", {b.x}, joined, DType::f32, {{"blocksize", block}}));
    EXPECT_EQ(b.outcome(), "wrong_attribute by join") << block;
  }
}

TEST(SpaceToDepthConv, takes_images_of_symbolic_extents) {
  PixelsBuilder b;
  b.x = b.input("image", {Dim("n"), 3, Dim("h"), Dim("w")});
  const SymShape half{Dim("n"), 3, Dim(), Dim("w")}, quarter{Dim("n"), 3, Dim(), Dim()};
  const ValueId even = b.slice("even", b.x, 2, 0, half), odd = b.slice("odd", b.x, 2, 1, half);
  const ValueId all = b.node("join", "Concat",
                             {b.slice("tl", even, 3, 0, quarter), b.slice("bl", odd, 3, 0, quarter),
                              b.slice("tr", even, 3, 1, quarter), b.slice("br", odd, 3, 1, quarter)},
                             {Dim("n"), 12, Dim(), Dim()}, DType::f32, {{"axis", int64_t{1}}});
  b.conv(all, {}, {Dim("n"), 5, Dim(), Dim()});
  const Graph before = clone(b.g);
  apply_match(b, space_to_depth_conv, "conv");
  expect_same_outputs(before, b.g, {{"n", 2}, {"h", 10}, {"w", 14}});
}

TEST(SpaceToDepthConv, stays_apart_when_the_pixels_have_a_second_reader) {
  PixelsBuilder b;
  const ValueId all = b.concat(b.slices());
  b.conv(all);
  b.output(b.node("other", "Relu", {all}, joined));
  EXPECT_EQ(b.outcome(), "extra_reader by other");
}

TEST(SpaceToDepthConv, stays_apart_when_the_pixels_are_a_graph_output) {
  PixelsBuilder b;
  const ValueId all = b.concat(b.slices());
  b.conv(all);
  b.output(all);
  EXPECT_EQ(b.outcome(), "graph_output by join");
}

TEST(SpaceToDepthConv, stays_apart_when_the_weights_are_computed) {
  PixelsBuilder b;
  b.conv(b.concat(b.slices()));
  b.g.set_input(b["conv"], 1, b.node("weight", "Relu", {b.input("w2", {5, 12, 3, 3})}, {5, 12, 3, 3}));
  EXPECT_EQ(b.outcome(), "not_constant by weight");
}

TEST(SpaceToDepthConv, stays_apart_with_groups_dilations_or_padding_to_be_worked_out) {
  for (const std::pair<std::string, Attribute>& a : std::vector<std::pair<std::string, Attribute>>{
           {"group", int64_t{4}}, {"dilations", std::vector<int64_t>{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}) {
    PixelsBuilder b;
    b.conv(b.concat(b.slices()), {a});
    EXPECT_EQ(b.outcome(), "wrong_attribute by conv") << a.first;
  }
}

TEST(SpaceToDepthConv, stays_apart_when_a_pixel_is_missing_or_there_twice) {
  PixelsBuilder twice;
  std::vector<ValueId> parts = twice.slices();
  parts[3] = parts[2];
  twice.conv(twice.concat(parts));
  EXPECT_EQ(twice.outcome(), "wrong_value by join");
  PixelsBuilder missing;
  parts = missing.slices();
  parts.pop_back();
  missing.conv(missing.concat(parts));
  EXPECT_EQ(missing.outcome(), "wrong_value by join");
}

TEST(SpaceToDepthConv, stays_apart_when_a_slice_is_of_another_axis_step_or_end) {
  const auto with_last = [](int64_t axis, int64_t start, int64_t step, int64_t end) {
    PixelsBuilder b;
    std::vector<ValueId> parts = b.slices();
    parts[3] = b.slice("last", b.node("rows", "Relu", {b.x}, {1, 3, 12, 16}), axis, start, {1, 3, 6, 8}, step, end);
    b.conv(b.concat(parts));
    return b.outcome();
  };
  EXPECT_EQ(with_last(1, 0, 2, 3), "wrong_axis by last");
  EXPECT_EQ(with_last(3, 2, 2, 16), "wrong_value by last");
  EXPECT_EQ(with_last(3, 0, 2, 12), "wrong_value by last");
  EXPECT_EQ(with_last(3, 0, -2, 16), "wrong_value by last");
  EXPECT_EQ(with_last(3, 0, 3, 16), "wrong_shape by last");     // 16 pixels
  EXPECT_EQ(with_last(3, 0, 4, 16), "wrong_producer by join");  // of another image, too
}

TEST(SpaceToDepthConv, stays_apart_when_bounds_are_computed) {
  PixelsBuilder b;
  b.conv(b.concat(b.slices()));
  b.g.set_input(b["br"], 1, b.node("start", "Abs", {b.input("s", {1}, DType::i64)}, {1}, DType::i64));
  EXPECT_EQ(b.outcome(), "not_constant by br");
}

TEST(SpaceToDepthConv, stays_apart_over_many_channels) {
  Builder b;
  const ValueId x = b.input("x", {1, 16, 8, 8});
  const ValueId all = b.node("join", "SpaceToDepth", {x}, {1, 64, 4, 4}, DType::f32, {{"blocksize", int64_t{2}}});
  b.output(b.node("conv", "Conv", {all, b.weights("w", {5, 64, 3, 3})}, {1, 5, 2, 2}));
  EXPECT_EQ(verdict(b, space_to_depth_conv, "conv"), "not_profitable by join");
}

}  // namespace
}  // namespace smelt::fuse
