#include "ops/core/data_dependent.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/loops.h"

namespace smelt::ops {
namespace {

using Inputs = std::span<const TensorDesc>;

constexpr int64_t most_elements = (int64_t{1} << 31) - 1;  // places are 32-bit numbers

bool is_number(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16 || t == DType::boolean ||
         (is_integer(t) && bits(t) >= 8);
}

std::vector<AtMost> non_zero(const Node&, Inputs in) {
  const TensorDesc& x = in[0];
  if (!is_number(x.type) || x.shape.empty() || x.shape.size() > 8) return {};
  return {{DType::i64, {static_cast<int64_t>(x.shape.size()), elements(x.shape)}, 1}};
}

std::vector<AtMost> compress(const Node& n, Inputs in) {
  const TensorDesc &x = in[0], &keep = in[1];
  if (!is_number(x.type) || keep.type != DType::boolean || keep.shape.size() != 1) return {};
  Shape most{elements(x.shape)};
  size_t axis = 0;
  if (n.has("axis")) {
    axis = static_cast<size_t>(normalize_axis(n.get_int("axis", 0), static_cast<int64_t>(x.shape.size())));
    most = x.shape;
  }
  most[axis] = std::min(most[axis], keep.shape[0]);
  return {{x.type, most, static_cast<int64_t>(axis)}};
}

/// Over all elements; slices along an axis have no kernel.
std::vector<AtMost> unique(const Node& n, Inputs in) {
  const TensorDesc& x = in[0];
  if (!is_number(x.type) || (n.has("axis") && x.shape.size() != 1)) return {};
  const Shape all{elements(x.shape)};
  std::vector<AtMost> most{{x.type, all, 0}, {DType::i64, all, 0}, {DType::i64, all, -1}, {DType::i64, all, 0}};
  most.resize(n.outputs.size());
  for (size_t i = 0; i < most.size(); ++i)
    if (n.outputs[i] == ValueId::none) most[i] = {};
  return most;
}

std::vector<AtMost> non_max_suppression(const Node&, Inputs in) {
  const TensorDesc &boxes = in[0], &scores = in[1];
  if (boxes.type != DType::f32 || scores.type != DType::f32 || scores.shape.size() != 3) return {};
  const auto scalar = [&](size_t i, DType type) {
    return in.size() <= i || !in[i].present() || (in[i].type == type && elements(in[i].shape) == 1);
  };
  if (!scalar(2, DType::i64) || !scalar(3, DType::f32) || !scalar(4, DType::f32)) return {};
  int64_t each = scores.shape[2];
  if (each >= int64_t{1} << 24) return {};  // a queue's entry holds a box's number in 24 bits
  if (in.size() <= 2 || !in[2].present())
    each = 0;
  else if (in[2].value)
    each = std::clamp<int64_t>(in[2].value->to_ints()[0], 0, each);
  return {{DType::i64, {scores.shape[0] * scores.shape[1] * each, 3}, 0}};
}

}  // namespace

std::vector<AtMost> outputs_at_most(const Node& node, Inputs inputs) {
  std::vector<AtMost> most;
  if (node.is("NonZero"))
    most = non_zero(node, inputs);
  else if (node.is("Compress"))
    most = compress(node, inputs);
  else if (node.is("Unique"))
    most = unique(node, inputs);
  else if (node.is("NonMaxSuppression"))
    most = non_max_suppression(node, inputs);
  // Nothing to find is found by the host.
  for (const AtMost& m : most)
    if (m.type != DType::undefined && (elements(m.shape) == 0 || bytes(m.type, elements(m.shape)) > largest_at_most)) return {};
  for (const TensorDesc& d : inputs)
    if (d.present() && elements(d.shape) > most_elements) return {};
  return most;
}

std::vector<AtMost> outputs_at_most(const Node& node, std::span<const BoundTensor> inputs) {
  std::vector<TensorDesc> in;
  for (const BoundTensor& t : inputs) in.push_back({t.type, t.shape, true, t.constant.valid() ? &t.constant : nullptr});
  return outputs_at_most(node, in);
}

Shape found_shape(const AtMost& output, int64_t count) {
  Shape s = output.shape;
  if (output.axis < 0) return s;
  int64_t& extent = s[static_cast<size_t>(output.axis)];
  if (count < 0 || count > extent) fail("a kernel found {} results where there are at most {}", count, extent);
  extent = count;
  return s;
}

std::vector<BoundTensor> bound_at_most(std::span<const AtMost> outputs) {
  std::vector<BoundTensor> bound;
  for (const AtMost& o : outputs) bound.push_back({o.type, o.shape, Layout::plain, {}, {}});
  bound.push_back({DType::i64, {1}, Layout::plain, {}, {}});
  return bound;
}

}  // namespace smelt::ops
