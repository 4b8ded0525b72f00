// Before   convolutions of f16 or bf16, and what stands between them: pointwise nodes, pooling, Resize, normalisation, movement
// After    the same nodes in f32, their constants too; Casts where other nodes hand values in or read them
// Unless   the processor multiplies that type (bf16 with AVX512-BF16), or the nodes run on a GPU
//          the weights are so many that their f32 form would cost more memory than it is worth
//          an operand of the convolution is dequantised: it becomes one of integers
//
// A processor widens 16-bit floats to multiply them, and its fast convolutions (Winograd's, depthwise ones) are those of f32: ResNets
// and U-Nets took up to twice the time of their f32 form. Results are rounded less often than in the type that the model was saved in.
#include <algorithm>
#include <map>
#include <set>

#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_weights = int64_t{64} << 20;  // elements: 256 MiB in f32

bool is_half(const Graph& g, ValueId v) {
  return v != ValueId::none && (g.value(v).type == DType::f16 || g.value(v).type == DType::bf16);
}

bool is_conv(const Node& n) { return n.is("Conv") || n.is("ConvTranspose"); }

/// Operators beside pointwise ones and those that move elements that may compute in another type between convolutions.
bool works_on_images(const Node& n) {
  constexpr std::string_view names[] = {
      "MaxPool",           "AveragePool", "GlobalAveragePool",     "GlobalMaxPool",      "Resize",
      "Upsample",          "ReduceMean",  "InstanceNormalization", "GroupNormalization", "LRN",
      "BatchNormalization"};
  return n.domain == onnx_domain && std::ranges::find(names, n.op) != std::end(names);
}

bool may_follow(const Node& n) {
  if (n.domain != onnx_domain || n.is("Cast") || n.is("CastLike") || n.program) return false;
  for (const auto& [name, a] : n.attrs)
    if (std::holds_alternative<GraphPtr>(a)) return false;
  const ops::Elements e = ops::facts(n).elements;
  return works_on_images(n) || e == ops::Elements::pointwise || e == ops::Elements::moved || e == ops::Elements::in_order;
}

/// The convolutions of one type and the nodes between them, in order.
class Region {
 public:
  Region(const Graph& g, DType type) : g_(g), type_(type) {
    for (NodeId n : g.topological())
      if (takes(n)) {
        nodes_.push_back(n);
        for (ValueId v : g.node(n).outputs)
          if (is_wanted(v)) made_.insert(v);
      }
  }

  const std::vector<NodeId>& nodes() const { return nodes_; }

  int64_t weights() const {
    int64_t count = 0;
    for (NodeId n : nodes_)
      for (ValueId v : g_.node(n).inputs)
        if (is_wanted(v) && g_.value(v).is_constant()) count += g_.value(v).constant.size();
    return count;
  }

 private:
  bool is_wanted(ValueId v) const { return v != ValueId::none && g_.value(v).type == type_; }

  bool takes(NodeId id) const {
    const Node& n = g_.node(id);
    if (n.outputs.empty() || !is_wanted(n.outputs[0])) return false;
    if (is_conv(n)) return !made_by(g_, n.in(0), "DequantizeLinear") && !made_by(g_, n.in(1), "DequantizeLinear");
    if (!may_follow(n)) return false;
    bool any = false;
    for (ValueId v : n.inputs) {
      if (!is_wanted(v) || g_.value(v).is_constant()) continue;
      if (!made_.contains(v)) return false;
      any = true;
    }
    return any;
  }

  const Graph& g_;
  DType type_;
  std::vector<NodeId> nodes_;
  std::set<ValueId> made_;  // of that type
};

/// Gives a region's nodes f32.
class Widening {
 public:
  explicit Widening(Graph& g) : g_(g) {}

  void run(const std::vector<NodeId>& nodes) {
    const std::set<NodeId> inside(nodes.begin(), nodes.end());
    std::vector<std::pair<ValueId, DType>> made;
    for (NodeId id : nodes) {
      for (size_t i = 0; i < g_.node(id).inputs.size(); ++i)
        if (const ValueId v = g_.node(id).inputs[i]; is_half(g_, v)) g_.set_input(id, i, wide(v, id));
      for (const ValueId v : std::vector<ValueId>(g_.node(id).outputs))
        if (is_half(g_, v)) made.emplace_back(v, g_.value(v).type), g_.set_type(v, DType::f32);
    }
    for (const auto& [v, type] : made) hand_on(v, type, inside);
  }

 private:
  /// A constant or another node's value, in f32. All readers share it.
  ValueId wide(ValueId v, NodeId reader) {
    const auto [at, fresh] = wide_.emplace(v, ValueId::none);
    if (!fresh) return at->second;
    const Value value = g_.value(v);
    if (value.is_constant()) return at->second = g_.add_constant(value.name + "_f32", value.constant.cast(DType::f32));
    at->second = g_.add_value(value.name + "_f32", DType::f32, value.shape);
    cast(v, at->second, reader);
    return at->second;
  }

  /// The region's value to others, in the type that they had it in.
  void hand_on(ValueId v, DType type, const std::set<NodeId>& inside) {
    std::vector<Use> others;
    for (const Use& u : g_.readers(v))
      if (!inside.contains(u.node)) others.push_back(u);
    std::vector<size_t> results;
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (g_.outputs()[i] == v) results.push_back(i);
    if (others.empty() && results.empty()) return;
    const NodeId producer = g_.value(v).producer;
    const std::string own = g_.value(v).name;
    if (!results.empty()) g_.rename(v, own + "_f32");  // the graph's output keeps its name
    const ValueId half = g_.add_value(results.empty() ? own + "_" + std::string(name(type)) : own, type, g_.value(v).shape);
    cast(v, half, producer);
    for (const Use& u : others) g_.set_input(u.node, static_cast<size_t>(u.input), half);
    for (size_t i : results) g_.set_output(i, half);
  }

  void cast(ValueId from, ValueId to, NodeId beside) {
    Node n;
    n.op = "Cast";
    n.name = "Cast_" + g_.value(to).name;
    n.opset = g_.node(beside).opset;
    n.inputs = {from};
    n.outputs = {to};
    n.attrs["to"] = static_cast<int64_t>(g_.value(to).type);
    n.sources = g_.node(beside).sources;
    n.order = g_.node(beside).order;
    g_.add_node(std::move(n));
  }

  Graph& g_;
  std::map<ValueId, ValueId> wide_;
};

Outcome widen(const Graph& g, NodeId n, DType type) {
  if (!is_conv(g.node(n)) || g.value(g.node(n).out()).type != type) return NotHere{};
  const Region region(g, type);
  if (std::ranges::find(region.nodes(), n) == region.nodes().end())
    return refuse(Reason::wrong_producer, n, "an operand is dequantised");
  if (const int64_t count = region.weights(); count > most_weights)
    return refuse(Reason::not_profitable, n, "{} weights; up to {} are widened", count, most_weights);
  return Match{region.nodes(), [nodes = region.nodes(), n](Graph& graph) {
                 Widening(graph).run(nodes);
                 return n;
               }};
}

}  // namespace

Outcome widen_convolutions(const Graph& g, NodeId n) {
  Outcome outcome = widen(g, n, DType::f16);
  return std::holds_alternative<NotHere>(outcome) ? widen(g, n, DType::bf16) : outcome;
}
Outcome widen_convolutions_of_f16(const Graph& g, NodeId n) { return widen(g, n, DType::f16); }
Outcome widen_convolutions_nowhere(const Graph&, NodeId) { return NotHere{}; }

}  // namespace smelt::fuse
