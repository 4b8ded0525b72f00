// Movement whose source and target offsets follow strides: one copy_window a call or a piece.
#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/copy.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/movement/family.h"
#include "ops/movement/windows.h"

namespace smelt::ops {
namespace {

// --- Transpose ----------------------------------------------------------------------------------------------------

std::vector<int64_t> permutation(const Node& node, size_t rank) {
  std::vector<int64_t> perm = node.get_ints("perm");
  if (!node.has("perm")) {
    for (size_t a = rank; a > 0; --a) perm.push_back(static_cast<int64_t>(a) - 1);
  }
  if (perm.size() != rank) fail("perm {} has {} axes, the input has {}", to_string(perm), perm.size(), rank);
  std::vector<int64_t> sorted = normalize_axes(perm, static_cast<int64_t>(rank));  // throws when one is listed twice
  for (int64_t& axis : perm) axis = normalize_axis(axis, static_cast<int64_t>(rank));
  return perm;
}

Shape permuted(const Shape& s, std::span<const int64_t> perm) {
  Shape result;
  for (int64_t axis : perm) result.push_back(s[static_cast<size_t>(axis)]);
  return result;
}

void infer_transpose(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!c.in(0).shape_known) return c.set_type(0, type);
  c.set(0, type, permuted(c.shape(0), permutation(c.node, c.shape(0).size())));
}

void run_transpose(ComputeContext& c) {
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  copy_window(y.shape(), x, transpose_window(c.node, strides(x.shape())), y, {0, strides(y.shape())});
}

// --- Slice --------------------------------------------------------------------------------------------------------

void infer_slice(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto starts = list(c, 1, "starts"), ends = list(c, 2, "ends"), axes = list(c, 3, "axes");
  const auto steps = c.has(4) ? c.ints(4) : std::vector<int64_t>(starts ? starts->size() : 0, 1);
  if (!starts || !ends || !axes || !steps || !c.in(0).shape_known) return c.set_type(0, type);
  const auto given_axes = has_list(c, 3, "axes") ? axes : std::nullopt;
  c.set(0, type, slice_range(c.shape(0), *starts, *ends, given_axes, steps).extent);
}

void run_slice(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const auto axes = has_list(c, 3, "axes") ? std::optional(list(c, 3, "axes")) : std::nullopt;
  const auto steps = c.has(4) ? std::optional(c.in(4).to_ints()) : std::nullopt;
  const SliceRange r = slice_range(x.shape(), list(c, 1, "starts"), list(c, 2, "ends"), axes, steps);
  Tensor& y = c.outputs[0];
  if (y.size() > 0) copy_window(y.shape(), x, slice_window(r, strides(x.shape())), y, {0, strides(y.shape())});
}

// --- Concat, Split ------------------------------------------------------------------------------------------------

void infer_concat(InferContext& c) {
  const DType type = type_of(c, 0);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (type_of(c, i) != type)
      fail("inputs 0 and {} have the types {} and {}, expected one type", i, name(type), name(c.in(i).type));
    if (!c.in(i).shape_known) return c.set_type(0, type);
  }
  Shape result = c.shape(0);
  const size_t axis = static_cast<size_t>(normalize_axis(c.node.get_int("axis", 1), static_cast<int64_t>(result.size())));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    Shape s = c.shape(i);
    if (s.size() == result.size()) {
      const int64_t extent = s[axis];
      s[axis] = result[axis];
      if (s == result) {
        result[axis] = checked_sum(result[axis], extent);
        continue;
      }
    }
    fail("input {} has shape {}, input 0 {}: they may differ on axis {} only", i, to_string(c.shape(i)), to_string(c.shape(0)),
         axis);
  }
  c.set(0, type, std::move(result));
}

void run_concat(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  const int64_t axis = normalize_axis(c.node.get_int("axis", 1), y.rank());
  const Shape target = strides(y.shape());
  int64_t begin = 0;
  for (const Tensor& x : c.inputs) {
    copy_window(x.shape(), x, {0, strides(x.shape())}, y, {begin * target[static_cast<size_t>(axis)], target});
    begin += x.shape()[static_cast<size_t>(axis)];
  }
}

/// Extents of the pieces: listed, or num_outputs (the node's outputs in older opsets) pieces of equal extent, the last one
/// smaller.
std::vector<int64_t> pieces(const Node& node, const std::optional<std::vector<int64_t>>& listed, int64_t extent) {
  const int64_t outputs = static_cast<int64_t>(node.outputs.size());
  if (listed) {
    int64_t total = 0;
    for (int64_t n : *listed) {
      if (n < 0) fail("split {} has the extent {}", to_string(*listed), n);
      if (__builtin_add_overflow(total, n, &total)) fail("split {} overflows", to_string(*listed));
    }
    if (total != extent) fail("split {} adds up to {}, the axis has extent {}", to_string(*listed), total, extent);
    if (static_cast<int64_t>(listed->size()) < outputs)
      fail("split {} has {} pieces for {} outputs", to_string(*listed), listed->size(), outputs);
    return *listed;
  }
  const int64_t count = node.get_int("num_outputs", outputs);
  if (count <= 0 || count < outputs) fail("num_outputs is {} for {} outputs", count, outputs);
  const int64_t piece = extent / count + (extent % count != 0);
  std::vector<int64_t> result;
  for (int64_t i = 0, left = extent; i < outputs; ++i, left -= result.back()) result.push_back(std::min(left, piece));
  return result;
}

void infer_split(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto listed = list(c, 1, "split");
  for (size_t i = 0; i < c.outputs.size(); ++i) c.set_type(i, type);
  if (!listed || !c.in(0).shape_known) return;
  Shape s = c.shape(0);
  const size_t axis = static_cast<size_t>(normalize_axis(c.node.get_int("axis", 0), static_cast<int64_t>(s.size())));
  const auto extents = pieces(c.node, has_list(c, 1, "split") ? listed : std::nullopt, s[axis]);
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    s[axis] = extents[i];
    c.set(i, type, s);
  }
}

void run_split(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const size_t axis = static_cast<size_t>(normalize_axis(c.node.get_int("axis", 0), x.rank()));
  const auto extents =
      pieces(c.node, has_list(c, 1, "split") ? std::optional(list(c, 1, "split")) : std::nullopt, x.shape()[axis]);
  const Shape source = strides(x.shape());
  int64_t begin = 0;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    if (c.wants(i))
      copy_window(c.outputs[i].shape(), x, {begin * source[axis], source}, c.outputs[i], {0, strides(c.outputs[i].shape())});
    begin += extents[i];
  }
}

// --- Expand, Tile -------------------------------------------------------------------------------------------------

void infer_expand(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto target = c.ints(1);
  if (!target || !c.in(0).shape_known) return c.set_type(0, type);
  for (int64_t n : *target) {
    if (n < 0) fail("shape {} has the extent {}", to_string(*target), n);
  }
  const Shape both[] = {c.shape(0), *target};
  c.set(0, type, broadcast_all(both));
}

void run_expand(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  copy_window(y.shape(), c.in(0), {0, broadcast_strides(c.in(0).shape(), y.shape())}, y, {0, strides(y.shape())});
}

void infer_tile(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto repeats = c.ints(1);
  if (!repeats || !c.in(0).shape_known) return c.set_type(0, type);
  Shape s = c.shape(0);
  if (repeats->size() != s.size()) fail("{} repeats for an input of rank {}", repeats->size(), s.size());
  for (size_t a = 0; a < s.size(); ++a) {
    if ((*repeats)[a] < 0 || __builtin_mul_overflow(s[a], (*repeats)[a], &s[a]))
      fail("repeats {} are out of range", to_string(*repeats));
  }
  c.set(0, type, std::move(s));
}

/// Every axis becomes two: which repeat, and where in it.
void run_tile(ComputeContext& c) {
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  const Shape own = strides(x.shape()), out = strides(y.shape());
  Shape extents, source, target;
  for (size_t a = 0; a < own.size(); ++a) {
    const int64_t n = x.shape()[a];
    extents.insert(extents.end(), {n == 0 ? 0 : y.shape()[a] / n, n});
    source.insert(source.end(), {0, own[a]});
    target.insert(target.end(), {out[a] * n, out[a]});
  }
  copy_window(extents, x, {0, source}, y, {0, target});
}

// --- DepthToSpace, SpaceToDepth -----------------------------------------------------------------------------------

int64_t block_size(const Node& node) {
  const int64_t b = node.get_int("blocksize", 0);
  constexpr int64_t largest = 1 << 20;  // its square, and that times an extent, must not overflow
  if (b <= 0 || b > largest) fail("blocksize is {}, expected 1 to {}", b, largest);
  return b;
}

/// The order that a channel index counts in: depth, row, column (DCR), or row, column, depth.
bool is_depth_first(const Node& node) {
  const std::string mode = node.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") fail("mode is '{}', expected 'DCR' or 'CRD'", mode);
  return mode == "DCR";
}

const Shape& image_shape(const InferContext& c) {
  if (c.shape(0).size() != 4) fail("the input has shape {}, expected rank 4", to_string(c.shape(0)));
  return c.shape(0);
}

void infer_depth_to_space(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = image_shape(c);
  const int64_t b = block_size(c.node);
  if (s[1] % (b * b) != 0) fail("{} channels are not a multiple of blocksize² = {}", s[1], b * b);
  c.set(0, type, {s[0], s[1] / (b * b), s[2] * b, s[3] * b});
}

void infer_space_to_depth(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = image_shape(c);
  const int64_t b = block_size(c.node);
  if (s[2] % b != 0 || s[3] % b != 0) fail("height {} and width {} are not multiples of blocksize {}", s[2], s[3], b);
  c.set(0, type, {s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

void run_block_move(ComputeContext& c) {
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  const BlockMove m = block_move(c.node, x.shape(), strides(x.shape()), y.shape(), strides(y.shape()));
  copy_window(m.extents, x, {0, m.from}, y, {0, m.to});
}

}  // namespace

BlockMove block_move(const Node& node, const Shape& x, const Shape& from, const Shape& y, const Shape& to) {
  const int64_t b = block_size(node);
  const bool depth_first = is_depth_first(node);
  if (node.op == "DepthToSpace") {
    // y[n, c, h·b + i, w·b + j] = x[n, channel(c, i, j), h, w]; the axes walked are n, c, h, i, w, j.
    const int64_t channels = y[1];
    return {{y[0], channels, x[2], b, x[3], b},
            {from[0], depth_first ? from[1] : from[1] * b * b, from[2], depth_first ? from[1] * b * channels : from[1] * b,
             from[3], depth_first ? from[1] * channels : from[1]},
            {to[0], to[1], to[2] * b, to[2], to[3] * b, to[3]}};
  }
  // y[n, channel(c, i, j), h, w] = x[n, c, h·b + i, w·b + j]; the axes walked are n, i, j, c, h, w.
  const int64_t channels = x[1], j = depth_first ? channels : 1, i = j * b;
  return {{x[0], b, b, channels, y[2], y[3]},
          {from[0], from[2], from[3], from[1], from[2] * b, from[3] * b},
          {to[0], to[1] * i, to[1] * j, depth_first ? to[1] : to[1] * b * b, to[2], to[3]}};
}

StridedWindow transpose_window(const Node& node, const Shape& x) { return {0, permuted(x, permutation(node, x.size()))}; }

SliceRange slice_range(const Shape& s, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                       std::optional<std::vector<int64_t>> axes, std::optional<std::vector<int64_t>> steps) {
  SliceRange r{Shape(s.size(), 0), Shape(s.size(), 1), s};
  if (ends.size() != starts.size() || (axes && axes->size() != starts.size()) || (steps && steps->size() != starts.size())) {
    fail("{} starts, {} ends: starts, ends, axes and steps must be equally many", starts.size(), ends.size());
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t a =
        static_cast<size_t>(normalize_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), static_cast<int64_t>(s.size())));
    const int64_t step = steps ? (*steps)[i] : 1, extent = s[a];
    if (step == 0) fail("the step of axis {} is 0", a);
    if (extent == 0) {  // an axis without a last element, from which a negative step could begin
      r.extent[a] = 0;
      continue;
    }
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    const auto clamp = [&](int64_t at, int64_t least) {
      return std::clamp(at < 0 ? at + extent : at, least, std::max(high, least));
    };
    const int64_t start = clamp(starts[i], 0), end = clamp(ends[i], low);
    const int64_t span = step > 0 ? end - start : start - end;
    const uint64_t width = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    r.start[a] = start;
    r.step[a] = step;
    r.extent[a] = span <= 0 ? 0 : 1 + static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / width);
  }
  return r;
}

StridedWindow slice_window(const SliceRange& r, Shape strides) {
  StridedWindow source{0, std::move(strides)};
  for (size_t a = 0; a < r.start.size(); ++a) {
    source.offset += r.start[a] * source.strides[a];
    source.strides[a] = r.extent[a] > 1 ? source.strides[a] * r.step[a] : 0;  // a huge step may overflow, and is not taken
  }
  return source;
}

std::span<const OpRow> strided_ops() {
  static constexpr OpRow table[] = {
      {{"Transpose", onnx_domain, infer_transpose, run_transpose}, {.elements = Elements::moved}},
      {{"Slice", onnx_domain, infer_slice, run_slice}, {.elements = Elements::moved, .reads_part = true}},
      {{"Concat", onnx_domain, infer_concat, run_concat}, {.elements = Elements::moved}},
      {{"Split", onnx_domain, infer_split, run_split}, {.elements = Elements::moved}},
      {{"Expand", onnx_domain, infer_expand, run_expand}, {.elements = Elements::moved}},
      {{"Tile", onnx_domain, infer_tile, run_tile}, {.elements = Elements::moved}},
      {{"DepthToSpace", onnx_domain, infer_depth_to_space, run_block_move}, {.elements = Elements::moved}},
      {{"SpaceToDepth", onnx_domain, infer_space_to_depth, run_block_move}, {.elements = Elements::moved}},
  };
  return table;
}

}  // namespace smelt::ops
