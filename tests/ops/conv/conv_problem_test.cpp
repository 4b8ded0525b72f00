#include "ops/conv/problem.h"

#include <gtest/gtest.h>

namespace smelt::ops {
namespace {

TEST(ConvProblem, prints_shapes_geometry_layouts_and_epilogue) {
  conv::Problem p;
  p.x = {{{1, 64, 56, 56}}};
  p.w = {64, 64, 3, 3};
  p.y = {1, 64, 56, 56};
  p.stride = p.dilation = p.pad_begin = p.pad_end = {1, 1};
  p.epilogue = "bias+relu";
  EXPECT_EQ(conv::print(p), "conv:f32>f32:1x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu");
  p.transposed = true;
  p.group = 2;
  EXPECT_EQ(conv::print(p), "convt:f32>f32:1x64x56x56,64x64x3x3:s1p1g2o56x56:nhwc:bias+relu");
}

TEST(ConvProblem, prints_each_input_and_what_differs_between_axes) {
  conv::Problem p;
  p.input = p.output = DType::f16;
  p.x = {{{2, 10, 4, 6}, 2}, {{2, 7, 8, 12}, 1, {1344, 96, 12, 1}}};
  p.w = {19, 17, 3, 3};
  p.y = {2, 19, 8, 6};
  p.y_strides = {50176, 784, 28, 1};
  p.stride = {1, 2};
  p.dilation = {1, 1};
  p.pad_begin = {0, 1};
  p.pad_end = {1, 1};
  p.from = Layout::plain;
  EXPECT_EQ(conv::print(p), "conv:f16>f16:2x10x4x6u2+2x7x8x12v1344x96x12x1,19x17x3x3:s1x2p0x1-1:plain>nhwcv50176x784x28x1:none");
}

TEST(ConvProblem, counts_the_taps_inside_the_image) {
  conv::Problem p;
  p.x = {{{1, 1, 20, 7}}};
  p.w = {1, 1, 3, 4};
  p.dilation = {24, 2};
  p.stride = {1, 3};
  p.pad_begin = {24, 5};
  p.y = {1, 1, 20, 4};
  int64_t inside = 0;
  for (int64_t y = 0; y < p.y[2]; ++y)
    for (int64_t x = 0; x < p.y[3]; ++x)
      for (int64_t i = 0; i < p.w[2]; ++i)
        for (int64_t j = 0; j < p.w[3]; ++j) {
          const int64_t at_y = y * p.stride[0] - p.pad_begin[0] + i * p.dilation[0];
          const int64_t at_x = x * p.stride[1] - p.pad_begin[1] + j * p.dilation[1];
          inside += at_y >= 0 && at_y < 20 && at_x >= 0 && at_x < 7;
        }
  EXPECT_DOUBLE_EQ(p.inside(), static_cast<double>(inside) / (20.0 * 4 * 3 * 4));
}

TEST(ConvProblem, copies_no_image_that_is_mostly_padding) {
  conv::Problem p;
  p.x = {{{1, 3, 224, 224}}};
  p.w = {64, 3, 7, 7};
  p.stride = {2, 2};
  p.dilation = {1, 1};
  p.pad_begin = p.pad_end = {3, 3};
  p.y = {1, 64, 112, 112};
  EXPECT_TRUE(conv::copies_with_padding(p));
  p.x = {{{1, 3, 5, 5}}};
  EXPECT_TRUE(conv::copies_with_padding(p));
  p.stride = {int64_t{1} << 28, int64_t{1} << 28};
  p.pad_begin = p.pad_end = {int64_t{1} << 30, int64_t{1} << 30};  // the copy's bytes are beyond 64 bits
  EXPECT_FALSE(conv::copies_with_padding(p));
}

}  // namespace
}  // namespace smelt::ops
