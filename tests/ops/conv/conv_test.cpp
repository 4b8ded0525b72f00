#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

const Tensor x3x3 = ramp({1, 1, 3, 3});
const Tensor ones2x2 = f32({1, 1, 2, 2}, {1, 1, 1, 1});

TEST(Conv, sums_each_window) { expect_near(run("Conv", {x3x3, ones2x2}), {1, 1, 2, 2}, {8, 12, 20, 24}); }

TEST(Conv, adds_one_bias_for_each_output_channel) {
  expect_near(run("Conv", {x3x3, f32({2, 1, 1, 1}, {1, -1}), f32({2}, {10, 20})}), {1, 2, 3, 3},
              {10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 19, 18, 17, 16, 15, 14, 13, 12});
}

TEST(Conv, pads_with_zeros_on_each_side_as_given) {
  expect_near(run("Conv", {x3x3, ones2x2}, {{"pads", Ints{1, 0, 0, 0}}}), {1, 1, 3, 2}, {1, 3, 8, 12, 20, 24});
}

TEST(Conv, steps_over_stride_and_spreads_by_dilation) {
  expect_near(run("Conv", {ramp({1, 1, 5, 5}), ones2x2}, {{"strides", Ints{2, 2}}, {"dilations", Ints{2, 2}}}), {1, 1, 2, 2},
              {24, 32, 64, 72});
}

TEST(Conv, same_upper_puts_the_odd_padding_at_the_end_and_same_lower_at_the_beginning) {
  expect_near(run("Conv", {x3x3, ones2x2}, {{"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 3, 3},
              {8, 12, 7, 20, 24, 13, 13, 15, 8});
  expect_near(run("Conv", {x3x3, ones2x2}, {{"auto_pad", std::string("SAME_LOWER")}}), {1, 1, 3, 3},
              {0, 1, 3, 3, 8, 12, 9, 20, 24});
}

TEST(Conv, groups_see_only_their_own_channels) {
  expect_near(run("Conv", {f32({1, 2, 2}, {1, 2, 3, 4}), f32({2, 1, 1}, {10, 100})}, {{"group", int64_t{2}}}), {1, 2, 2},
              {10, 20, 300, 400});
}

TEST(Conv, works_in_three_dimensions) {
  expect_near(run("Conv", {ramp({1, 1, 2, 2, 2}), f32({1, 1, 2, 2, 2}, std::vector<float>(8, 1))}), {1, 1, 1, 1, 1}, {28});
}

TEST(Conv, rounds_half_precision_once) {
  // 1 + 2048 ulps of 2^-11: summed in f16 the small terms would vanish against 2048.
  const Tensor x = f32({1, 3, 1}, {2048, 1, 1}).cast(DType::f16), w = f32({1, 3, 1}, {1, 1, 1}).cast(DType::f16);
  const Tensor y = run("Conv", {x, w});
  EXPECT_EQ(y.type(), DType::f16);
  expect_near(y, {1, 1, 1}, {2050});
}

TEST(Conv, of_an_empty_batch_is_empty) {
  EXPECT_EQ(run("Conv", {Tensor::empty(DType::f32, {0, 1, 3, 3}), ones2x2}).shape(), (Shape{0, 1, 2, 2}));
}

TEST(Conv, names_what_does_not_fit) {
  expect_error("expected rank 4", [] { run("Conv", {x3x3, f32({1, 1, 2}, {1, 1})}); });
  expect_error("expected 1 channels", [] { run("Conv", {x3x3, f32({1, 2, 1, 1}, {1, 1})}); });
  expect_error("does not fit", [] { run("Conv", {x3x3, Tensor::zeros(DType::f32, {1, 1, 4, 4})}); });
  expect_error("strides has 1 entries", [] { run("Conv", {x3x3, ones2x2}, {{"strides", Ints{1}}}); });
  expect_error("strides has 0", [] { run("Conv", {x3x3, ones2x2}, {{"strides", Ints{0, 1}}}); });
  expect_error("B has shape [2]", [] { run("Conv", {x3x3, ones2x2, f32({2}, {1, 1})}); });
}

TEST(ConvInteger, takes_the_zero_points_away_before_padding) {
  const Tensor y = run("ConvInteger", {u8({1, 1, 2, 2}, {2, 3, 4, 5}), u8({1, 1, 2, 2}, {1, 1, 1, 1}), u8({}, {1})},
                       {{"pads", Ints{1, 1, 1, 1}}});
  EXPECT_EQ(y.type(), DType::i32);
  expect_near(y, {1, 1, 3, 3}, {1, 3, 2, 4, 10, 6, 3, 7, 4});
}

TEST(ConvInteger, has_one_weight_zero_point_for_each_output_channel) {
  expect_near(run("ConvInteger", {u8({1, 1, 1}, {10}), u8({2, 1, 1}, {5, 5}), Tensor(), u8({2}, {1, 3})}), {1, 2, 1}, {40, 20});
}

TEST(ConvTranspose, spreads_each_element_over_the_kernel) {
  expect_near(run("ConvTranspose", {f32({1, 1, 2}, {1, 2}), f32({1, 1, 3}, {1, 10, 100})}), {1, 1, 4}, {1, 12, 120, 200});
  expect_near(
      run("ConvTranspose", {f32({1, 1, 2}, {1, 2}), f32({1, 1, 3}, {1, 10, 100})}, {{"strides", Ints{2}}, {"pads", Ints{1, 0}}}),
      {1, 1, 4}, {10, 102, 20, 200});
}

TEST(ConvTranspose, output_shape_decides_the_padding) {
  const std::vector<Tensor> in{f32({1, 1, 2}, {1, 2}), f32({1, 1, 3}, {1, 10, 100})};
  expect_near(run("ConvTranspose", in, {{"output_shape", Ints{3}}, {"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 3},
              {1, 12, 120});
  expect_near(run("ConvTranspose", in, {{"output_shape", Ints{3}}}), {1, 1, 3}, {12, 120, 200});
}

TEST(ConvTranspose, output_padding_adds_to_the_end) {
  expect_near(
      run("ConvTranspose", {f32({1, 1, 2}, {1, 2}), f32({1, 1, 1}, {1})}, {{"strides", Ints{2}}, {"output_padding", Ints{1}}}),
      {1, 1, 4}, {1, 0, 2, 0});
}

TEST(ConvTranspose, groups_map_channels_in_order) {
  expect_near(run("ConvTranspose", {f32({1, 2, 1}, {1, 2}), f32({2, 2, 1}, {1, 10, 100, 1000})}, {{"group", int64_t{2}}}),
              {1, 4, 1}, {1, 10, 200, 2000});
}

TEST(DeformConv, without_offsets_is_a_convolution) {
  const Tensor offset = Tensor::zeros(DType::f32, {1, 8, 2, 2});
  expect_near(run("DeformConv", {x3x3, ones2x2, offset}), {1, 1, 2, 2}, {8, 12, 20, 24});
}

TEST(DeformConv, wants_a_bias_for_each_result_channel) {
  const Tensor x = f32({1, 1, 1, 1}, {1}), w = f32({2, 1, 1, 1}, {1, 1}), offset = f32({1, 2, 1, 1}, {0, 0});
  expect_error("the bias has shape [1], expected [2]", [&] { run("DeformConv", {x, w, offset, f32({1}, {1})}); });
}

TEST(DeformConv, samples_between_pixels_and_scales_by_the_mask) {
  // One tap, moved half a pixel down and right: the mean of four neighbours; outside counts as zero.
  const Tensor offset = f32({1, 2, 1, 1}, {0.5f, 0.5f}), w = f32({1, 1, 1, 1}, {1}), x = f32({1, 1, 1, 1}, {8});
  expect_near(run("DeformConv", {x, w, offset}), {1, 1, 1, 1}, {2});
  expect_near(run("DeformConv", {x, w, offset, f32({1}, {1}), f32({1, 1, 1, 1}, {0.5f})}), {1, 1, 1, 1}, {2});
}

TEST(Col2Im, refuses_an_image_of_less_than_nothing) {
  for (const int64_t height : {int64_t{-1}, std::numeric_limits<int64_t>::min()})
    expect_error("expected 0 to", [&] { run("Col2Im", {ramp({1, 4, 2}, 1), i64({2}, {height, 3}), i64({2}, {2, 2})}); });
}

TEST(Col2Im, adds_overlapping_blocks) {
  // A 2x3 image cut into two 2x2 blocks: the middle column belongs to both.
  expect_near(run("Col2Im", {ramp({1, 4, 2}, 1), i64({2}, {2, 3}), i64({2}, {2, 2})}), {1, 1, 2, 3}, {1, 5, 4, 5, 13, 8});
}

}  // namespace
}  // namespace smelt::ops::test
