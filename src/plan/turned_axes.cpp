#include "plan/turned_axes.h"

#include <algorithm>

#include "ops/core/channels_last.h"

namespace smelt::plan {
namespace {

/// A node as it is on an image's memory, and the constants that differ, by input.
struct TurnedNode {
  std::shared_ptr<Node> node;
  std::vector<std::pair<size_t, Tensor>> constants;
};

int64_t rank_of(const Segment& s, const Step& step) { return static_cast<int64_t>(s.tensor(step.inputs[0]).shape.size()); }

const Tensor* constant(const Segment& s, const Step& step, size_t input) {
  if (input >= step.inputs.size() || step.inputs[input] == absent) return nullptr;
  const Tensor& t = s.tensor(step.inputs[input]).constant;
  return t.valid() ? &t : nullptr;
}

bool is_left_out(const Step& step, size_t input) { return input >= step.inputs.size() || step.inputs[input] == absent; }

/// With its attribute `axis`, or its default.
std::shared_ptr<Node> along_axis(const Node& n, int64_t otherwise, int64_t rank) {
  auto own = std::make_shared<Node>(n);
  own->attrs["axis"] = turned_axis(normalize_axis(n.get_int("axis", otherwise), rank), rank);
  return own;
}

/// A list of one value an axis of the image, as its memory has them.
Tensor turned_list(const Tensor& list) {
  const Shape values = list.to_ints();
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, turned_shape(values));
}

std::optional<TurnedNode> turned_cumulation(const Segment& s, const Step& step) {
  const Tensor* axis = constant(s, step, 1);
  if (!axis || axis->to_ints().size() != 1) return std::nullopt;
  const int64_t rank = rank_of(s, step), turned = turned_axis(normalize_axis(axis->to_ints()[0], rank), rank);
  return TurnedNode{
      std::make_shared<Node>(*step.node),
      {{1, axis->type() == DType::i32 ? Tensor::of<int32_t>(axis->shape(), std::vector<int32_t>{static_cast<int32_t>(turned)})
                                      : Tensor::of<int64_t>(axis->shape(), std::vector<int64_t>{turned})}}};
}

/// Where the places of elements, not their values, are what it reads of the image: indices of one axis of the image.
std::optional<TurnedNode> turned_gather(const Segment& s, const Step& step) {
  if (s.tensor(step.inputs[1]).shape.size() != 1) return std::nullopt;
  return TurnedNode{along_axis(*step.node, 0, rank_of(s, step)), {}};
}

/// A scale for each index of an axis.
std::optional<TurnedNode> turned_scales(const Segment& s, const Step& step) {
  if (s.tensor(step.inputs[1]).shape.size() != 1 || step.node->get_int("block_size", 0) != 0) return std::nullopt;
  return TurnedNode{along_axis(*step.node, 1, rank_of(s, step)), {}};
}

std::optional<TurnedNode> turned_expansion(const Segment& s, const Step& step) {
  const Tensor* shape = constant(s, step, 1);
  if (!shape || shape->shape() != Shape{rank_of(s, step)}) return std::nullopt;
  return TurnedNode{std::make_shared<Node>(*step.node), {{1, turned_list(*shape)}}};
}

TurnedNode turned_statistics(const Segment& s, const Step& step) {
  const int64_t rank = rank_of(s, step);
  std::vector<int64_t> axes = step.node->has("axes") ? step.node->get_ints("axes") : std::vector<int64_t>{0, 2, 3};
  for (int64_t& a : axes) a = turned_axis(normalize_axis(a, rank), rank);
  auto own = std::make_shared<Node>(*step.node);
  own->attrs["axes"] = std::move(axes);
  return {std::move(own), {}};
}

/// Its kernels for two spatial axes take channels-last images themselves.
std::optional<TurnedNode> turned_resize(const Segment& s, const Step& step) {
  if (step.node->has("axes") || !is_left_out(step, 1)) return std::nullopt;
  const int64_t rank = rank_of(s, step);
  TurnedNode t{std::make_shared<Node>(*step.node), {}};
  for (const size_t i : {size_t{2}, size_t{3}}) {
    if (is_left_out(step, i)) continue;
    const Tensor* list = constant(s, step, i);
    if (!list) return std::nullopt;
    if (elements(list->shape()) == 0) continue;
    if (elements(list->shape()) != rank) return std::nullopt;
    if (i == 3) {
      t.constants.emplace_back(i, turned_list(*list));
      continue;
    }
    std::vector<float> scales;
    const std::vector<double> values = list->to_doubles();
    for (int64_t a = 0; a < rank; ++a) scales.push_back(0);
    for (int64_t a = 0; a < rank; ++a)
      scales[static_cast<size_t>(turned_axis(a, rank))] = static_cast<float>(values[static_cast<size_t>(a)]);
    t.constants.emplace_back(i, Tensor::of<float>({rank}, scales));
  }
  return t;
}

std::optional<TurnedNode> turned(const Segment& s, const Step& step) {
  const Node& n = *step.node;
  const int64_t rank = rank_of(s, step);
  if (n.is("Hardmax") || n.is("LpNormalization") || n.is("TopK")) return TurnedNode{along_axis(n, -1, rank), {}};
  if (n.is("Gather")) return turned_gather(s, step);
  if (n.is("QuantizeLinear") || n.is("DequantizeLinear")) return turned_scales(s, step);
  if (n.is("CumSum")) return turned_cumulation(s, step);
  if (n.is("Expand")) return turned_expansion(s, step);
  if (n.is("Resize")) return turned_resize(s, step);
  if (n.is("MeanVarianceNormalization")) return turned_statistics(s, step);
  return std::nullopt;
}

/// A view of a channels-last image as its memory, or the other way about.
Step view_of(const Segment& s, TensorIndex from, TensorIndex to, bool into_memory) {
  const auto rank = static_cast<int64_t>(s.tensor(from).shape.size());
  std::vector<int64_t> perm;
  for (int64_t a = 0; a < rank; ++a)
    perm.push_back(into_memory ? (a == 0 ? 0 : a == rank - 1 ? 1 : a + 1) : turned_axis(a, rank));
  Node node;
  node.op = "Transpose";
  node.attrs["perm"] = std::move(perm);
  node.inputs = {s.tensor(from).value};
  node.outputs = {s.tensor(to).value};
  Step step;
  step.kind = StepKind::view;
  step.node = std::make_shared<const Node>(std::move(node));
  step.inputs = {from};
  step.outputs = {to};
  return step;
}

TensorIndex memory_of(Segment& s, TensorIndex image) {
  BoundValue memory;
  memory.type = s.tensor(image).type;
  memory.shape = turned_shape(s.tensor(image).shape);
  memory.fixed_layout = true;
  return add_tensor(s, std::move(memory));
}

}  // namespace

int64_t turned_axis(int64_t axis, int64_t rank) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

Shape turned_shape(const Shape& image) {
  Shape turned = image;
  std::rotate(turned.begin() + 1, turned.begin() + 2, turned.end());
  return turned;
}

std::optional<TurnedSteps> turned_steps(Segment& s, const Step& step,
                                        const std::function<bool(const Step&, const ops::BoundNode&)>& runs) {
  if (step.kind != StepKind::kernel || step.inputs.empty() || !step.at_most.empty()) return std::nullopt;
  const size_t rank = s.tensor(step.inputs[0]).shape.size(), tensors = s.tensors.size();
  for (TensorIndex t : step.outputs)
    if (t == absent || s.tensor(t).fixed_layout || s.tensor(t).shape.size() != rank) return std::nullopt;
  std::optional<TurnedNode> node = turned(s, step);
  if (!node) return std::nullopt;
  TurnedSteps all{{}, step, {}};
  all.step.node = node->node;
  all.step.inputs[0] = memory_of(s, step.inputs[0]);
  for (TensorIndex& t : all.step.outputs) t = memory_of(s, t);
  for (auto& [input, value] : node->constants) {
    BoundValue constant;
    constant.type = value.type();
    constant.shape = value.shape();
    constant.constant = std::move(value);
    constant.fixed_layout = true;
    all.step.inputs[input] = add_tensor(s, std::move(constant));
  }
  if (!runs(all.step, bound_node(s, all.step, nullptr))) {
    s.tensors.resize(tensors);
    return std::nullopt;
  }
  all.before.push_back(view_of(s, step.inputs[0], all.step.inputs[0], true));
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    BoundValue& y = s.tensor(step.outputs[i]);
    if (!ops::is_same_either_way(y.shape)) y.layout = ops::Layout::nhwc;
    all.after.push_back(view_of(s, all.step.outputs[i], step.outputs[i], false));
  }
  return all;
}

}  // namespace smelt::plan
