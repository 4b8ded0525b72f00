// Before   Reshape(InstanceNormalization(Reshape(x, [N, G, -1])), x's shape), then per-channel scale and shift and an activation
// After    Reshape(x, [N, G, C/G, -1]) → ai.smelt.Norm layer over the last two axes, what follows as its program → Reshape
//          back. Neither Reshape moves data
// Unless   the reshapes are not x's [N, C, …] to [N, G, …] and back
//          C is not known
//          scale or bias of InstanceNormalization is computed
//          what is between has another reader or is a graph output
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// A constant over channels, [C, 1, …] or [1, C, 1, …] of rank `rank` or less, or of one element.
bool is_per_channel(const Graph& g, ValueId v, int64_t channels, int rank) {
  const Value& value = g.value(v);
  if (!value.is_constant()) return false;
  if (value.constant.size() == 1) return true;
  const Shape& s = value.constant.shape();
  const auto at = static_cast<int64_t>(s.size()) - (rank - 1);  // axis that lines up with C
  return value.constant.size() == channels && at >= 0 && s[static_cast<size_t>(at)] == channels;
}

bool all_are(const Tensor& t, double v) {
  return std::ranges::all_of(t.to_doubles(), [v](double x) { return x == v; });
}

}  // namespace

Outcome recognise_group_norm(const Graph& g, NodeId instance) {
  const Node& n = g.node(instance);
  NodeId before;
  if (!n.is("InstanceNormalization") || !made_by(g, n.in(0), "Reshape", &before)) return NotHere{};
  const ValueId x = g.node(before).in(0);
  auto next = reader_of(g, n.out());
  if (!next) return next.refusal();
  const NodeId back = *next;
  if (!g.node(back).is("Reshape")) return NotHere{};
  const ValueId y = g.node(back).out();
  auto whole = extents(g, x), grouped = extents(g, n.in(0)), result = extents(g, y);
  if (!whole || !grouped || !result)
    return refuse(Reason::unknown_shape, instance, "the rank of {} is not known", g.value(!whole ? x : y).name);
  if (whole->size() < 3 || grouped->size() != 3 || (*grouped)[0] != (*whole)[0] || *result != *whole) return NotHere{};
  const Extent channels = (*whole)[1], groups = (*grouped)[1];
  if (!channels.known() || !groups.known() || groups.number == 0 || channels.number % groups.number != 0)
    return refuse(Reason::unknown_shape, instance, "{} channels in {} groups", to_string(Extents{channels}),
                  to_string(Extents{groups}));
  for (size_t i : {1, 2})
    if (!g.value(n.in(i)).is_constant())
      return refuse(Reason::not_constant, g.producer(instance, i), "{} is computed", g.value(n.in(i)).name);
    else if (g.constant(instance, i).size() != groups.number)
      return refuse(Reason::wrong_shape, instance, "{} has {} elements, expected {}", g.value(n.in(i)).name,
                    g.constant(instance, i).size(), groups.number);
  const DType type = g.value(x).type;
  if (!is_real(type)) return refuse(Reason::wrong_type, instance, "x is {}", name(type));

  const int r = static_cast<int>(whole->size());
  const int64_t in_group = channels.number / groups.number;
  EpilogueLimits limits;
  limits.accept = [&g, c = channels.number, r](ValueId v) { return is_per_channel(g, v, c, r); };
  const Epilogue epilogue = absorb(g, {y, expr::conversion(accumulator(type), type), {}}, limits);
  std::vector<NodeId> nodes{instance, back};
  if (g.only_reader(n.in(0)) != NodeId::none) nodes.push_back(before);
  nodes.insert(nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
  nodes = in_order(g, std::move(nodes));

  return Match{nodes, [=](Graph& graph) {
                 const Node before_node = graph.node(before), back_node = graph.node(back);
                 const Tensor gamma = graph.constant(instance, 1), beta = graph.constant(instance, 2);
                 const Shape per_group{groups.number, 1, 1}, per_channel{groups.number, in_group, 1};
                 const ValueId none = ValueId::none, result_value = epilogue.result;
                 const DType y_type = graph.value(result_value).type;
                 SymShape four = *graph.value(x).shape;
                 four.resize(2);
                 four[1] = Dim(groups.number);
                 four.push_back(Dim(in_group));
                 four.push_back(Dim());
                 if (is_static(*graph.value(x).shape)) {
                   const Shape s = to_shape(*graph.value(x).shape);
                   four.back() = Dim(elements(Shape(s.begin() + 2, s.end())));
                 }
                 // Exporters write ones and zeros where the channels have the parameters.
                 const auto parameter = [&](const Tensor& t, double neutral) {
                   return all_are(t, neutral) ? none : graph.add_constant("", t.reshaped(per_group));
                 };
                 Node split;
                 split.op = "Reshape";
                 split.opset = before_node.opset;
                 split.name = before_node.name;
                 split.sources = before_node.sources;
                 split.order = before_node.order;
                 split.inputs = {x, graph.add_constant("", Tensor::of<int64_t>({4}, {0, groups.number, in_group, -1}))};
                 split.outputs = {graph.add_value("", type, four)};
                 std::vector<ValueId> inputs{split.outputs[0], none, parameter(gamma, 1), parameter(beta, 0)};
                 for (ValueId v : epilogue.composition.operands) {
                   const Tensor& t = graph.value(v).constant;
                   inputs.push_back(t.size() == 1 ? v : graph.add_constant("", t.reshaped(per_channel)));
                 }
                 Node norm = fused_node("Norm", inputs, {graph.add_value("", y_type, four)});
                 norm.attrs["kind"] = std::string("layer");
                 norm.attrs["axis"] = int64_t{-2};
                 norm.attrs["epsilon"] = graph.node(instance).get_float("epsilon", 1e-5f);
                 if (!epilogue.nodes.empty()) norm.program = epilogue.composition.program;
                 Node merge = back_node;
                 merge.inputs[0] = norm.outputs[0];
                 merge.outputs = {result_value};
                 const NodeId made = replace(graph, nodes, norm);
                 merge.order = graph.node(made).order;
                 graph.add_node(split);
                 graph.add_node(merge);
                 return made;
               }};
}

}  // namespace smelt::fuse
