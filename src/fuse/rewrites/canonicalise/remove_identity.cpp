// Before   a node that returns its first input: Identity, Dropout in inference, Cast to the same type, Reshape, Flatten, Squeeze,
//          Unsqueeze, Expand, Tile or Resize to the same shape, Transpose in the same order, Pad by nothing, Slice of
//          everything, Concat, Sum, Min, Max or Mean of one, Split into one, x + 0, x - 0, x * 1, x / 1, x to the power of 1
//          (constants of one element)
// After    its readers read the input
// Unless   its output and its input are both seen from outside the graph
//          a parameter that decides it is computed
//          the constant's shape enlarges the result
#include <algorithm>

#include "fuse/match/bypass.h"
#include "fuse/match/extents.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Which value the node returns unchanged, or why it does not; NotHere where it is not expected to.
using Answer = std::variant<NotHere, Refusal, ValueId>;

Answer when(bool same, ValueId v) { return same ? Answer(v) : Answer(NotHere{}); }

Answer identity(const Graph& g, NodeId n) { return g.node(n).in(0); }

Answer dropout(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.in(2) == ValueId::none) return node.in(0);
  const auto training = scalar(g, node.in(2));
  if (!training) return refuse(Reason::not_constant, g.producer(n, 2), "training_mode of {} is computed", describe(g, n));
  return when(*training == 0, node.in(0));
}

Answer same_type(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  return when(g.value(node.in(0)).type == g.value(node.out()).type, node.in(0));
}

Answer same_extents(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  return when(same_shape(g, node.in(0), node.out()), node.in(0));
}

/// Of the same extents an image may still be sampled between its pixels.
Answer resize(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::string at = node.get_string("coordinate_transformation_mode", "half_pixel");
  const size_t scales = node.op == "Upsample" ? 1 : 2;
  if (at == "tf_crop_and_resize" || at == "tf_half_pixel_for_nn") return NotHere{};
  if (node.in(scales) != ValueId::none && size_of(g, node.in(scales)) != 0) {
    const Tensor& t = g.constant(n, scales);
    if (!t.valid()) return NotHere{};
    const auto numbers = t.to_doubles();
    if (std::any_of(numbers.begin(), numbers.end(), [](double s) { return s != 1; })) return NotHere{};
    return node.in(0);
  }
  return same_extents(g, n);
}

Answer transpose(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.has("perm")) return when(rank(g, node.in(0)) == 0 || rank(g, node.in(0)) == 1, node.in(0));
  const auto perm = node.get_ints("perm");
  return when(std::is_sorted(perm.begin(), perm.end()), node.in(0));
}

Answer pad(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const auto pads = ints(g, n, "pads", 1);
  if (!pads) {
    if (same_shape(g, node.in(0), node.out()))
      return refuse(Reason::not_constant, g.producer(n, 1), "the pads of {} are computed", describe(g, n));
    return NotHere{};
  }
  return when(std::all_of(pads->begin(), pads->end(), [](int64_t p) { return p == 0; }), node.in(0));
}

Answer slice(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!same_shape(g, node.in(0), node.out())) return NotHere{};
  if (node.in(4) == ValueId::none) return node.in(0);
  const auto steps = ints(g, n, "steps", 4);
  if (!steps) return refuse(Reason::not_constant, g.producer(n, 4), "the steps of {} are computed", describe(g, n));
  // All elements in the same order, unless an axis is gone through backwards.
  return when(std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s > 0; }), node.in(0));
}

Answer only_input(const Graph& g, NodeId n) { return when(g.node(n).inputs.size() == 1, g.node(n).in(0)); }

Answer only_output(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  return when(node.outputs.size() == 1 && same_shape(g, node.in(0), node.out()), node.in(0));
}

// Constants of one element only: of weights the shape decides what becomes of a graph, not the values. They may not be there
// (`explain` reads them as zeros, and a bias or the cosine of an angle must not go for that).
bool is_exactly(const Graph& g, ValueId v, double wanted) {
  const auto found = scalar(g, v);
  return found && *found == wanted;
}

Answer neutral(const Graph& g, NodeId n, double element, bool either_side) {
  const Node& node = g.node(n);
  if (node.inputs.size() != 2) return NotHere{};
  for (size_t i : {0u, 1u}) {
    if ((i == 1 && !either_side) || !is_exactly(g, node.in(1 - i), element)) continue;
    if (same_shape(g, node.in(i), node.out())) return node.in(i);
    return refuse(Reason::wrong_shape, n, "the constant enlarges {}", g.value(node.in(i)).name);
  }
  return NotHere{};
}

Answer add_zero(const Graph& g, NodeId n) { return neutral(g, n, 0, true); }
Answer subtract_zero(const Graph& g, NodeId n) { return neutral(g, n, 0, false); }
Answer times_one(const Graph& g, NodeId n) { return neutral(g, n, 1, true); }
Answer divided_by_one(const Graph& g, NodeId n) { return neutral(g, n, 1, false); }

struct Row {
  std::string_view op;
  Answer (*answer)(const Graph&, NodeId);
};

constexpr Row rows[] = {
    {"Identity", identity},    {"Dropout", dropout},
    {"Cast", same_type},       {"CastLike", same_type},
    {"Reshape", same_extents}, {"Flatten", same_extents},
    {"Squeeze", same_extents}, {"Unsqueeze", same_extents},
    {"Expand", same_extents},  {"Tile", same_extents},
    {"Resize", resize},        {"Upsample", resize},
    {"Transpose", transpose},  {"Pad", pad},
    {"Slice", slice},          {"Concat", only_input},
    {"Sum", only_input},       {"Min", only_input},
    {"Max", only_input},       {"Mean", only_input},
    {"Split", only_output},    {"Add", add_zero},
    {"Sub", subtract_zero},    {"Mul", times_one},
    {"Div", divided_by_one},   {"Pow", divided_by_one},
};

}  // namespace

Outcome remove_identity(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.domain != onnx_domain || node.in(0) == ValueId::none || node.out() == ValueId::none) return NotHere{};
  for (const Row& row : rows) {
    if (row.op != node.op) continue;
    const Answer answer = row.answer(g, n);
    if (const auto* no = std::get_if<Refusal>(&answer)) return *no;
    const auto* v = std::get_if<ValueId>(&answer);
    if (!v) return NotHere{};
    if (auto no = cannot_bypass(g, n, *v)) return *no;
    return bypass(g, n, *v);
  }
  return NotHere{};
}

}  // namespace smelt::fuse
