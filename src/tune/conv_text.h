// A convolution by a line of text (tune/problem_text.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/problem_text.h"

namespace smelt::tune {

/// conv:f16:32x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu
///
///   type       f32, f16 or bf16; i8 or u8 (with weights of i8, all zero points 0), whose result has the same type
///   x,w        images N x C x H x W and weights M x C x KH x KW (C of a group); or volumes N x C x D x H x W and M x C x KD x KH x KW
///   geometry   letters, each with a number, or one for each axis with an x between: s stride, p padding on all sides, d dilation, g
///              groups; "s1p0d1g1" if left out
///   layout     nhwc or nchw, of the image and of the result; nhwc if left out
///   epilogue   as of products; bias is the convolution's, a number a channel, residual and gate are images
struct ConvText {
  DType type = DType::f32;
  std::vector<int64_t> x, w;
  std::vector<int64_t> stride, pad, dilation;  // along each axis
  int64_t groups = 1;
  bool channels_last = true;
  std::vector<std::string> epilogue;

  size_t axes() const { return x.size() - 2; }  // 2, of volumes 3
};

/// Throws Error (usage) that says what was expected, where, and what was found.
ConvText parse_conv(std::string_view text);
std::string print(const ConvText& p);

/// The convolution as a step that kernels are offered for. Its weights are random numbers.
ProblemNode conv_node(const ConvText& p);

}  // namespace smelt::tune
