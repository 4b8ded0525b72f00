#include "fuse/rewrites/layout/concat.h"

#include <algorithm>

namespace smelt::fuse {
namespace {

bool is_one_of(const Node& n, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), n.op) != ops.end();
}

bool is_view(const Node& n) {
  return n.domain == onnx_domain && is_one_of(n, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Split", "Slice"});
}

bool has_body(const Node& n) { return n.domain == onnx_domain && is_one_of(n, {"If", "Loop", "Scan", "SequenceMap"}); }

/// Operators whose kernels write an output, and read an input, with a gap after each outer slice.
bool takes_rows_apart(const Node& n) {
  return is_one_of(n, {"Conv", "ConvTranspose", "QLinearConv", "Resize", "Relu", "MaxPool", "AveragePool", "Pointwise", "Concat",
                       "DepthToSpace"});
}

/// The product of the extents before the axis; nothing when one is not known.
std::optional<int64_t> extents_before(const SymShape& shape, int64_t axis) {
  int64_t n = 1;
  for (int64_t i = 0; i < axis; ++i) {
    if (!shape[static_cast<size_t>(i)].known()) return {};
    if (__builtin_mul_overflow(n, shape[static_cast<size_t>(i)].value, &n)) return {};
  }
  return n;
}

}  // namespace

std::optional<Refusal> not_in_place(const Graph& g, NodeId concat) {
  const Node& node = g.node(concat);
  const auto& shape = g.value(node.out()).shape;
  if (!shape) return refuse(Reason::unknown_shape, concat, "the rank of {} is not known", g.value(node.out()).name);
  const int64_t axis = normalize_axis(node.get_int("axis", 0), static_cast<int64_t>(shape->size()));
  const auto before = extents_before(*shape, axis);
  if (g.value(node.out()).type == DType::string)
    return refuse(Reason::wrong_type, concat, "{} gives strings", describe(g, concat));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& x = g.value(node.inputs[i]);
    if (x.is_constant()) return refuse(Reason::wrong_producer, concat, "input {} ({}) is a constant", i, x.name);
    if (x.producer == NodeId::none)
      return refuse(Reason::wrong_producer, concat, "input {} ({}) is given from outside", i, x.name);
    if (g.is_output(node.inputs[i])) return refuse(Reason::graph_output, x.producer, "{} is a graph output", x.name);
    const Node& producer = g.node(x.producer);
    if (is_view(producer)) return refuse(Reason::wrong_producer, x.producer, "{} is a view of another value", x.name);
    if (has_body(producer)) return refuse(Reason::in_subgraph, x.producer, "{} runs a subgraph", describe(g, x.producer));
    for (const Use& u : g.readers(node.inputs[i])) {
      const bool again = u.node == concat ? u.input != static_cast<int>(i) : g.node(u.node).is("Concat");
      // The Concat that comes first in the graph has the value; the other one copies it.
      const bool later = u.node != concat && g.node(u.node).order > node.order;
      if (again && !later) return refuse(Reason::extra_reader, u.node, "{} is concatenated twice", x.name);
    }
    if (before == 1) continue;  // slices are contiguous, for whoever writes or reads them
    for (const Use& u : g.readers(node.inputs[i]))
      if (!takes_rows_apart(g.node(u.node)))
        return refuse(Reason::wrong_reader, u.node, "{} does not read slices of axis {} that lie apart", describe(g, u.node),
                      axis);
    if (takes_rows_apart(producer)) continue;
    if (!before) return refuse(Reason::unknown_shape, x.producer, "an extent before axis {} is not known", axis);
    return refuse(Reason::wrong_axis, x.producer, "{} slices of axis {} lie apart, which {} does not write", *before, axis,
                  describe(g, x.producer));
  }
  return {};
}

std::optional<int64_t> nearest_factor(const Graph& g, NodeId resize) {
  const Node& node = g.node(resize);
  const auto &from = g.value(node.in(0)).shape, &to = g.value(node.out()).shape;
  if (!node.is("Resize") || node.get_string("mode", "nearest") != "nearest" || !from || !to || from->size() < 3 ||
      from->size() != to->size())
    return {};
  if (node.has("axes") || node.get_string("keep_aspect_ratio_policy", "stretch") != "stretch") return {};
  std::vector<double> scales;
  if (const Tensor& t = g.constant(resize, 2); t.valid() && t.size() > 0) {
    scales = t.to_doubles();
  } else {
    for (size_t i = 0; i < from->size(); ++i) {
      if ((*from)[i] == (*to)[i] && ((*from)[i].known() || !(*from)[i].symbol.empty()))
        scales.push_back(1);
      else if ((*from)[i].known() && (*to)[i].known() && (*from)[i].value > 0)
        scales.push_back(static_cast<double>((*to)[i].value) / static_cast<double>((*from)[i].value));
      else
        return {};
    }
  }
  if (scales.size() != from->size() || scales.empty() || !(scales.back() >= 1 && scales.back() <= 1 << 20)) return {};
  const auto factor = static_cast<int64_t>(scales.back());
  for (size_t i = 0; i < scales.size(); ++i)
    if (scales[i] != (i < 2 ? 1.0 : static_cast<double>(factor))) return {};

  // Element i is read from i / factor rounded down: directly, or as the nearest to (i + 0.5) / factor - 0.5.
  const std::string at = node.get_string("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.get_string("nearest_mode", "round_prefer_floor");
  const bool halves = at == "half_pixel" && rounding.starts_with("round");
  const bool whole = at == "asymmetric" && (rounding == "floor" || (factor <= 2 && rounding == "round_prefer_floor"));
  return halves || whole ? std::optional(factor) : std::nullopt;
}

}  // namespace smelt::fuse
