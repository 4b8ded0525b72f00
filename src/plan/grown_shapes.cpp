#include "plan/grown_shapes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

constexpr int most_in_vain = 4;

bool same_class(const Shape& a, const Shape& b) {
  const auto same = [](int64_t x, int64_t y) { return std::min<int64_t>(x, 2) == std::min<int64_t>(y, 2); };
  return std::ranges::equal(a, b, same);
}

bool same_content(const Tensor& a, const Tensor& b) {
  if (a.raw() == b.raw()) return true;
  return a.nbytes() == b.nbytes() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

}  // namespace

bool GrownShapes::wants(const Segment& s, const Environment& env) const {
  const auto is_certain = [](const Step& step) {
    return step.kind != StepKind::dynamic && step.kind != StepKind::control && step.at_most.empty();
  };
  return in_vain_ < most_in_vain && env.left == 0 && std::ranges::all_of(s.steps, is_certain);
}

void GrownShapes::keep(Segment s, Environment env) {
  kept_ = {std::move(s), std::move(env)};
  changed_.assign(kept().env.values.size(), 0);
  shapes_before_.resize(changed_.size());
}

const Segment* GrownShapes::grow(const Graph& g, std::span<const NodeId> order, std::span<const Shape> inputs) {
  if (!kept_) return nullptr;
  std::ranges::fill(changed_, 0);
  bool grows = false;
  try {
    grows = set_inputs(g, inputs) && std::ranges::all_of(order, [&](NodeId n) { return follow(g.node(n)); }) && enter();
  } catch (const Error&) {
  }
  if (grows) {
    in_vain_ = 0;
    return &kept().segment;
  }
  ++in_vain_;
  forget();
  return nullptr;
}

bool GrownShapes::set_inputs(const Graph& g, std::span<const Shape> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = g.inputs()[i];
    Environment::Entry& entry = kept().env[v];
    if (entry.shape == inputs[i]) continue;
    const Environment::Entry was = std::exchange(entry, {true, entry.type, inputs[i], {}});
    if (!change(v, was)) return false;
  }
  return true;
}

/// Notes that a value is another; false where the segment may be another then.
bool GrownShapes::change(ValueId v, const Environment::Entry& was) {
  const Environment::Entry& now = kept().env[v];
  if (now.type != was.type || now.type == DType::string || !same_class(now.shape, was.shape)) return false;
  if (now.value.valid() != was.value.valid()) return false;
  if (now.shape == was.shape && (!now.value.valid() || same_content(now.value, was.value))) return true;
  // Kernels' offers may make lists as long as a tensor.
  if (const int64_t size = bytes(now.type, elements(now.shape)); size > room_) {
    check_available(size, now.type, now.shape);
    room_ = size;
  }
  changed_[static_cast<size_t>(index(v))] = 1;
  shapes_before_[static_cast<size_t>(index(v))] = was.shape;
  return true;
}

bool GrownShapes::follow(const Node& node) {
  const auto is_new = [&](ValueId v) { return v != ValueId::none && changed_[static_cast<size_t>(index(v))] != 0; };
  if (std::ranges::none_of(node.inputs, is_new)) return true;
  Environment& env = kept().env;
  const std::vector<ops::TensorDesc> in = described_inputs(env, node);
  std::vector<ops::TensorDesc> out(node.outputs.size());
  ops::infer(node, in, out);
  std::vector<Environment::Entry> was(out.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (node.outputs[i] != ValueId::none) was[i] = env[node.outputs[i]];
  if (!evaluate_now(node, in, out, env)) {
    for (size_t i = 0; i < out.size(); ++i) {
      if (node.outputs[i] == ValueId::none) continue;
      if (!out[i].present() || !out[i].shape_known) return false;
      env.set(node.outputs[i], out[i].type, std::move(out[i].shape));
    }
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (node.outputs[i] != ValueId::none && !change(node.outputs[i], was[i])) return false;
  return true;
}

/// Enters the new extents and values into the segment.
bool GrownShapes::enter() {
  Segment& s = kept().segment;
  for (BoundValue& t : s.tensors) {
    if (t.value == ValueId::none || changed_[static_cast<size_t>(index(t.value))] == 0) continue;
    const Environment::Entry& now = kept().env[t.value];
    // A layout, strides and renumbered axes were found for the extents before.
    if (t.layout != ops::Layout::plain || !t.strides.empty() || t.shape != shapes_before_[static_cast<size_t>(index(t.value))])
      return false;
    if (t.constant.valid() != now.value.valid()) return false;
    t.shape = now.shape;
    t.constant = now.value;
  }
  return std::ranges::all_of(s.steps, [&](const Step& step) { return fits(step); });
}

bool GrownShapes::is_changed(TensorIndex t) const {
  if (t == absent) return false;
  const ValueId v = kept().segment.tensor(t).value;
  return v != ValueId::none && changed_[static_cast<size_t>(index(v))] != 0;
}

/// Whether a step that reads or writes a changed tensor is still the step that it was.
bool GrownShapes::fits(const Step& step) const {
  const Segment& s = kept().segment;
  const auto is_new = [&](TensorIndex t) { return is_changed(t); };
  if (std::ranges::none_of(step.inputs, is_new) && std::ranges::none_of(step.outputs, is_new)) return true;
  if (step.id == NodeId::none || (step.part >= 0 && !step.of_joined))
    return false;  // nodes that were made for the extents before
  const auto is_plain = [&](TensorIndex t) {
    return t == absent || (s.tensor(t).strides.empty() && s.tensor(t).layout == ops::Layout::plain &&
                           (s.tensor(t).value != ValueId::none || s.tensor(t).constant.valid()));
  };
  if (!std::ranges::all_of(step.inputs, is_plain) || !std::ranges::all_of(step.outputs, is_plain)) return false;
  return step.kind != StepKind::view || view_offsets(s, step).has_value();
}

}  // namespace smelt::plan
