#include "ops/conv/conv_case.h"
#include "support/conv_geometries.h"

namespace smelt::ops {
namespace {

std::vector<ConvCase> shapes() {
  std::vector<ConvCase> all;
  for (const test::ConvGeometry& g : test::conv_geometries()) all.push_back(one(g.x, g.w, g.stride, g.pads));
  ConvCase dilated = one({1, 12, 11, 13}, {20, 12, 3, 3}, {1, 1}, {2, 2, 2, 2});
  dilated.dilation = {2, 2};
  all.push_back(dilated);
  ConvCase grouped = one({1, 12, 8, 8}, {18, 4, 3, 3}, {1, 1}, {1, 1, 1, 1});
  grouped.group = 3;
  all.push_back(grouped);
  ConvCase depthwise = one({2, 24, 9, 9}, {24, 1, 5, 5}, {2, 2}, {2, 2, 2, 2});
  depthwise.group = 24;
  all.push_back(depthwise);
  return all;
}

TEST(ConvTactics, agree_with_the_reference_on_every_listed_shape) {
  for (const ConvCase& c : shapes()) {
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_FALSE(agree(t, want).empty());
  }
}

TEST(ConvTactics, agree_with_the_reference_on_plain_images) {
  const ConvCase c = one({1, 16, 12, 10}, {24, 16, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c, Layout::plain);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape());
  EXPECT_THAT(agree(t, want), testing::Contains("onednn"));
}

TEST(ConvTactics, read_a_plain_image_of_three_channels_into_a_channels_last_one) {
  const ConvCase c = one({2, 3, 30, 31}, {20, 3, 3, 3}, {2, 2}, {1, 1, 1, 1});
  Trial t = trial(c, Layout::plain);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  EXPECT_THAT(agree(t, want), testing::Contains("avx2"));
}

/// First layers: lines of fewer pixels than a tile and of more, windows of every size, results in one panel, part of one and several.
TEST(ConvTactics, take_images_of_few_channels_line_by_line) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const int64_t results : {1, 8, 13, 16, 24, 33, 40, 64}) {
      for (const int64_t width : {3, 12, 13, 29, 50}) {
        for (const int64_t stride : {1, 2}) {
          for (const Layout layout : {Layout::plain, Layout::nhwc}) {
            const int64_t window = 3 + 2 * ((results + width) % 3);
            const ConvCase c = one({2, channels, 7, width}, {results, channels, window, window}, {stride, stride},
                                   {window / 2, window / 2, window / 2, window / 2});
            Trial t = trial(c, layout);
            const Tensor want = sums(c, t);
            t.result(DType::f32, want.shape(), Layout::nhwc);
            EXPECT_THAT(agree(t, want), testing::Contains("avx2"));
          }
        }
      }
    }
  }
}

TEST(ConvTactics, read_several_inputs_in_place_one_of_them_upsampled) {
  ConvCase c;
  c.x = {{1, 10, 4, 6}, {1, 7, 8, 12}};
  c.w = {19, 17, 3, 3};
  c.pads = {1, 1, 1, 1};
  c.upsample = {2, 1};
  Trial t = trial(c);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  EXPECT_THAT(agree(t, want), testing::IsSupersetOf({"avx2", "winograd", "onednn"}));
}

TEST(ConvTactics, read_and_write_slices_of_wider_images) {
  const ConvCase c = one({1, 12, 6, 7}, {20, 12, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  t.bound.inputs[0].strides = {6 * 7 * 30, 1, 7 * 30, 30};
  t.bound.outputs[0].strides = {6 * 7 * 50, 1, 7 * 50, 50};
  EXPECT_EQ(agree(t, want), (std::vector<std::string>{"avx2", "winograd"}));
}

/// Whose pixels are copied with their padding in place, so that rows of taps are contiguous: dense and as slices, of every type.
TEST(ConvTactics, of_few_channels_side_by_side) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t channels : {5, 8, 12, 13, 16, 17})
      for (const int64_t width : {1, 2, 3, 5})
        for (const int64_t stride : {1, 2})
          for (const bool is_slice : {false, true}) {
            ConvCase c = one({2, channels, 7, 11}, {channels + 2, channels, 3, width}, {stride, 1}, {1, width / 2, 0, width / 2});
            c.dilation = {is_slice ? 2 : 1, 1};
            c.type = type;
            Trial t = trial(c);
            const Tensor want = sums(c, t);
            t.result(type, want.shape(), Layout::nhwc);
            if (is_slice) t.bound.inputs[0].strides = {7 * 11 * 30, 1, 11 * 30, 30};
            EXPECT_THAT(agree(t, want,
                              type == DType::f32   ? 2e-6
                              : type == DType::f16 ? 1.0 / 1024
                                                   : 1.0 / 128),
                        testing::Contains("avx2"));
          }
}

TEST(ConvTactics, offer_several_inputs_joined_for_kernels_of_one) {
  for (Layout layout : {Layout::plain, Layout::nhwc}) {
    ConvCase c;
    c.x = {{2, 10, 4, 6}, {2, 7, 8, 12}, {2, 3, 8, 12}};
    c.w = {19, 20, 3, 3};
    c.pads = {1, 1, 1, 1};
    c.upsample = {2, 1, 1};
    Trial t = trial(c, layout);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), layout);
    EXPECT_THAT(agree(t, want), testing::Contains("onednn"));
  }
}

TEST(ConvTactics, compute_half_precision_in_f32_and_round_once) {
  for (DType type : {DType::f16, DType::bf16}) {
    ConvCase c = one({1, 33, 6, 6}, {18, 33, 3, 3}, {1, 1}, {1, 1, 1, 1});
    c.type = type;
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(type, want.shape(), Layout::nhwc);
    EXPECT_FALSE(agree(t, want, type == DType::f16 ? 1.0 / 2048 : 1.0 / 256).empty());
  }
}

TEST(ConvTactics, of_windows_that_lie_in_the_padding_altogether) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    ConvCase c = one({1, 17, 1, 14}, {33, 17, 3, 3}, {2, 2}, {3, 0, 3, 0});
    c.dilation = {2, 2};
    c.type = type;
    Trial t = trial(c);
    t.result(type, {1, 33, 2, 5}, Layout::nhwc);
    EXPECT_FALSE(check(t, 0).empty());
  }
}

TEST(ConvTactics, at_strides_above_the_window) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const int64_t height : {1, 3})
      for (const int64_t pad : {1, 3})
        for (const int64_t stride : {6, 7, 9}) {
          ConvCase c = one({1, 32, 5, 12}, {32, 32, height, 5}, {1, stride}, {0, pad, 0, pad});
          c.type = type;
          Trial t = trial(c);
          t.result(type, expected(t).shape(), Layout::nhwc);
          EXPECT_FALSE(check(t, type == DType::f32 ? 2e-6 : type == DType::f16 ? 1.0 / 1024 : 1.0 / 128).empty());
        }
}

}  // namespace
}  // namespace smelt::ops
