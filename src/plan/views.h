// Which operators move no data, given concrete shapes, and how Concat's inputs lie in its output.
#pragma once

#include <optional>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// When every output of the step is a contiguous part of input 0's bytes (Reshape, Squeeze, Unsqueeze, Flatten, Identity; a
/// Transpose that moves only axes of extent 1, Expand, Cast and Tile that change nothing; Split and Slice along the
/// first axis longer than 1): the byte offset of each output. Nothing otherwise.
std::optional<std::vector<int64_t>> view_offsets(const Segment& s, const Step& step);

/// A tensor that lies in another's memory, from its first element on, elements.
struct View {
  Shape strides;
  int64_t offset = 0;
};

/// Where a tensor of `shape` with these strides has the elements of the same tensor reshaped to `to`; nothing where that takes
/// more than one stride an axis. Axes of extent 1 get the strides of a dense tensor.
std::optional<Shape> reshaped_strides(const Shape& shape, const Shape& strides, const Shape& to);

/// Where the outputs of a step that only moves data (Reshape and its like, Transpose, Slice forwards, Split, Gather at one
/// constant index, Reorder) lie in input 0, if that has these strides. Nothing for other steps, and where a Reshape is not a view.
std::optional<std::vector<View>> strided_views(const Segment& s, const Step& step, const Shape& from);

/// The other way about, for Reshape and its like, Transpose and Reorder: the strides that input 0 has where output 0 has these.
std::optional<Shape> strides_before(const Segment& s, const Step& step, const Shape& to);

/// How the inputs of a concatenation alternate in its output's memory: `outer` times, one chunk of each input.
struct ConcatShape {
  int64_t outer = 1;
  std::vector<int64_t> chunks;  // bytes of each input's chunk
  int64_t row = 0;              // bytes from one row of chunks to the next in the output
};

/// Nothing when inputs and output differ in layout.
std::optional<ConcatShape> concat_shape(const Segment& s, const Step& step);

}  // namespace smelt::plan
