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

}  // namespace
}  // namespace smelt::ops
