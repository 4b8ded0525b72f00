#include "fuse/match/bypass.h"

namespace smelt::fuse {

std::optional<Refusal> cannot_bypass(const Graph& g, NodeId n, ValueId v) {
  const Node& node = g.node(n);
  const ValueId out = node.out();
  const Value &from = g.value(out), &to = g.value(v);
  if (from.type != to.type)
    return refuse(Reason::wrong_type, n, "{} is {}, {} is {}", from.name, name(from.type), to.name, name(to.type));
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != ValueId::none && (!g.readers(node.outputs[i]).empty() || g.is_output(node.outputs[i])))
      return refuse(Reason::extra_reader, n, "output {} of {} is used too", i, describe(g, n));
  if (!g.is_output(out)) return {};
  if (g.is_output(v)) return refuse(Reason::graph_output, to.producer, "{} and {} are both graph outputs", to.name, from.name);
  if (to.producer == NodeId::none)
    return refuse(Reason::graph_output, n, "{} is a graph output, and {} is no node's", from.name, to.name);
  return {};
}

Match bypass(const Graph& g, NodeId n, ValueId v) {
  const ValueId out = g.node(n).out();
  return {{n}, [n, v, out](Graph& graph) {
            const std::string name = graph.value(out).name;
            const bool named = graph.is_output(out);
            // What was known of the shape on either side is known of the value that stays.
            const auto is_full = [&](ValueId value) { return graph.value(value).shape && is_static(*graph.value(value).shape); };
            if (!graph.value(v).shape || (!is_full(v) && is_full(out))) graph.set_shape(v, graph.value(out).shape);
            const NodeId producer = graph.value(v).producer;
            if (producer != NodeId::none) graph.merge_sources(producer, n);
            graph.replace_uses(out, v);
            graph.remove_node(n);
            if (named) {
              graph.rename(out, "");
              graph.rename(v, name);
            }
            return producer;
          }};
}

Match become_constant(const Graph& g, NodeId n, Tensor t) {
  return {{n}, [n, out = g.node(n).out(), t = std::move(t)](Graph& graph) {
            graph.remove_node(n);
            graph.set_constant(out, t);
            return NodeId::none;
          }};
}

Match become(NodeId n, std::string op, std::vector<ValueId> inputs, std::map<std::string, Attribute> attrs) {
  return {{n}, [n, op = std::move(op), inputs = std::move(inputs), attrs = std::move(attrs)](Graph& graph) {
            graph.edit(n).op = op;
            graph.edit(n).attrs = attrs;
            graph.set_inputs(n, inputs);
            return n;
          }};
}

Match become_reshape(NodeId n, ValueId x, std::vector<int64_t> extents) {
  return {{n}, [n, x, extents = std::move(extents)](Graph& graph) {
            const Tensor shape = Tensor::of({static_cast<int64_t>(extents.size())}, extents);
            const ValueId to = graph.add_constant(graph.node(n).name + "_shape", shape);
            graph.edit(n).op = "Reshape";
            graph.edit(n).attrs.clear();
            graph.set_inputs(n, {x, to});
            return n;
          }};
}

}  // namespace smelt::fuse
