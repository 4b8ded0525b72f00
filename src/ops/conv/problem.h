// What a convolution computes: the contract between the graph and the tactics, which see nothing else of the node.
//
//   conv:f32>f32:1x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu
//
// Fields: operator (conv, convt for the transposed one), element types, input shapes (several inputs joined by "+" are
// concatenated along the channels; "u2" upsamples one by 2) and the weight's, geometry (s stride, p pads as begin-end where they
// differ, d dilation, g group; two numbers where the axes differ), layouts of input and output, the epilogue. "v" and strides behind
// a shape or a layout: a slice of another tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/quantization.h"
#include "ops/core/tactic.h"

namespace smelt::ops::conv {

struct Input {
  Shape shape;           // [N, C, spatial…]
  int64_t upsample = 1;  // nearest neighbour, along every spatial axis
  Shape strides = {};    // of a slice of another tensor, elements; empty: dense
};

struct Problem {
  bool transposed = false;
  DType input = DType::f32, output = DType::f32;
  std::vector<Input> x;
  Shape w;          // [M, C / group, kernel…]; transposed: [C, M / group, kernel…]
  Shape y;          // [N, M, spatial…]; not printed: it follows from the rest but for a transposed one's output padding
  Shape y_strides;  // where the result is a slice of another tensor, elements
  Shape stride, dilation, pad_begin, pad_end;  // one entry a spatial axis
  int64_t group = 1;
  bool blocked = false;  // x and y lie as [N, C / 32, spatial…, 32] (ops/core/channel_blocks.h): printed as "nchw32"
  Layout from = Layout::nhwc, to = Layout::nhwc;
  std::string epilogue = "none";
  std::optional<Quantization> quantization;  // of a convolution of 8-bit integers: a is x, b is w; not printed

  size_t spatial() const { return w.size() - 2; }
  int64_t channels() const;  // of all inputs together
  int64_t outputs() const { return y[1]; }
  double flops() const;
  /// The share of all windows' taps that lie inside the image, 0 to 1; 1 of a transposed one. Wide dilations leave few.
  double inside() const;
};

std::string print(const Problem& p);

/// The strides of a slice of another tensor; none of a dense tensor.
Shape gaps(const BoundTensor& t);

/// Where a node's inputs lie: the images from x on, w, b, then the program's operands.
struct Arguments {
  size_t segments = 1, x = 0, w = 1, b = 2, operands = 3;
};
Arguments arguments(const Node& node);

/// The problem of a bound Conv or ConvTranspose, or of ai.smelt's, without its epilogue.
Problem problem(const BoundNode& node);

/// True for images of few channels (an RGB input), at most so many: kernels copy them once with their padding in place, from any layout, so
/// that a window's row of taps is contiguous.
bool copies_with_padding(const Problem& p, int64_t few_channels = 4);

/// True of a transposed one each of whose results has one pixel in its sum: the window is the stride, and nothing is cut off or added.
bool windows_lie_side_by_side(const Problem& p);

}  // namespace smelt::ops::conv
