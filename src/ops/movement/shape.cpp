// Operators that change a tensor's shape or ask for it; no element changes its place.
#include <algorithm>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/expression.h"
#include "ops/core/list_inputs.h"
#include "ops/movement/family.h"

namespace smelt::ops {

using expr::Fn;
namespace {

void run_copy(ComputeContext& c) { copy_all(c.in(0), c.outputs[0]); }

void infer_identity(InferContext& c) { same_as(c, 0, 0); }

/// The -1 of a tensor without elements: what it is for any other extents of the axes that are kept; 0 where that says nothing.
int64_t open_beside_kept(const Shape& from, const Shape& target, std::span<const size_t> kept, size_t open) {
  Shape in = from, out = target;
  for (const size_t i : kept) in[i] = out[i] = 1;
  out[open] = 1;
  const int64_t before = elements(in), after = elements(out);
  return after != 0 && before % after == 0 ? before / after : 0;
}

/// `target` with 0 replaced by the input's extent (unless allowzero) and one -1 by what remains.
Shape reshaped(const Shape& from, std::vector<int64_t> target, bool allow_zero) {
  int64_t known = 1;
  std::optional<size_t> open;
  std::vector<size_t> kept;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allow_zero) {
      if (i >= from.size()) fail("shape {} keeps axis {} of an input of shape {}", to_string(target), i, to_string(from));
      target[i] = from[i];
      kept.push_back(i);
    }
    if (target[i] == -1) {
      if (open) fail("shape {} has more than one -1", to_string(target));
      open = i;
    } else if (target[i] < 0) {
      fail("shape {} has the extent {}", to_string(target), target[i]);
    }
  }
  for (size_t i = 0; i < target.size(); ++i) {
    if (open != i && __builtin_mul_overflow(known, target[i], &known)) fail("shape {} overflows", to_string(target));
  }
  const int64_t total = elements(from);
  if (open) {
    if (known == 0 ? total != 0 : total % known != 0) fail("{} elements do not reshape to {}", total, to_string(target));
    target[*open] = known == 0 ? open_beside_kept(from, target, kept, *open) : total / known;
  } else if (known != total) {
    fail("{} elements (shape {}) do not reshape to {}", total, to_string(from), to_string(target));
  }
  return target;
}

void infer_reshape(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!has_list(c, 1, "shape")) fail("no shape is given, neither as input 1 nor as an attribute");
  const auto target = list(c, 1, "shape");
  if (!target || !c.in(0).shape_known) return c.set_type(0, type);
  c.set(0, type, reshaped(c.shape(0), *target, c.node.get_int("allowzero", 0) != 0));
}

void infer_flatten(InferContext& c) {
  if (!c.has(0) || !c.in(0).shape_known) return c.set_type(0, type_of(c, 0));
  const Shape& s = c.shape(0);
  int64_t axis = c.node.get_int("axis", 1);
  const int64_t rank = static_cast<int64_t>(s.size());
  if (axis < -rank || axis > rank) fail("axis {} is outside [{}, {}]", axis, -rank, rank);
  if (axis < 0) axis += rank;
  const Shape front(s.begin(), s.begin() + axis), back(s.begin() + axis, s.end());
  c.set(0, c.in(0).type, {elements(front), elements(back)});
}

void infer_squeeze(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto listed = list(c, 1, "axes");
  if (!listed || !c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = c.shape(0);
  std::vector<bool> drop(s.size(), false);
  if (has_list(c, 1, "axes")) {
    for (int64_t axis : *listed) {
      const size_t a = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(s.size())));
      if (s[a] != 1) fail("axis {} of {} has extent {}, expected 1", axis, to_string(s), s[a]);
      drop[a] = true;
    }
  } else {
    for (size_t a = 0; a < s.size(); ++a) drop[a] = s[a] == 1;
  }
  Shape result;
  for (size_t a = 0; a < s.size(); ++a) {
    if (!drop[a]) result.push_back(s[a]);
  }
  c.set(0, type, std::move(result));
}

void infer_unsqueeze(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!has_list(c, 1, "axes")) fail("no axes are given, neither as input 1 nor as an attribute");
  const auto listed = list(c, 1, "axes");
  if (!listed || !c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = c.shape(0);
  const size_t rank = s.size() + listed->size();
  std::vector<bool> added(rank, false);
  for (int64_t axis : *listed) {
    const size_t a = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(rank)));
    if (added[a]) fail("axis {} is listed twice in {}", axis, to_string(*listed));
    added[a] = true;
  }
  Shape result;
  size_t next = 0;
  for (size_t a = 0; a < rank; ++a) result.push_back(added[a] ? 1 : s[next++]);
  c.set(0, type, std::move(result));
}

/// [start, end) of Shape's attributes, clamped to the rank.
std::pair<int64_t, int64_t> shape_range(const Node& node, int64_t rank) {
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(node.get_int("start", 0)), end = clamp(node.get_int("end", rank));
  return {start, std::max(start, end)};
}

void infer_shape(InferContext& c) {
  if (!c.has(0) || !c.in(0).shape_known) {
    type_of(c, 0);
    return c.set_type(0, DType::i64);
  }
  const auto [start, end] = shape_range(c.node, static_cast<int64_t>(c.shape(0).size()));
  c.set(0, DType::i64, {end - start});
}

void run_shape(ComputeContext& c) {
  const Shape& s = c.in(0).shape();
  const auto [start, end] = shape_range(c.node, static_cast<int64_t>(s.size()));
  std::copy(s.begin() + start, s.begin() + end, c.outputs[0].data<int64_t>());
}

void infer_size(InferContext& c) {
  type_of(c, 0);
  c.set(0, DType::i64, {});
}

void run_size(ComputeContext& c) { *c.outputs[0].data<int64_t>() = c.in(0).size(); }

}  // namespace

std::span<const OpRow> shape_ops() {
  static constexpr OpRow table[] = {
      {{"Identity", onnx_domain, infer_identity, run_copy},
       {.elements = Elements::in_order, .shape = OutShape::input, .expression = {Fn::select, write_identity}}},
      {{"Reshape", onnx_domain, infer_reshape, run_copy}, {.elements = Elements::in_order}},
      {{"Flatten", onnx_domain, infer_flatten, run_copy}, {.elements = Elements::in_order}},
      {{"Squeeze", onnx_domain, infer_squeeze, run_copy}, {.elements = Elements::in_order}},
      {{"Unsqueeze", onnx_domain, infer_unsqueeze, run_copy}, {.elements = Elements::in_order}},
      {{"Shape", onnx_domain, infer_shape, run_shape}, {.elements = Elements::extents}},
      {{"Size", onnx_domain, infer_size, run_size}, {.elements = Elements::extents}},
  };
  return table;
}

}  // namespace smelt::ops
