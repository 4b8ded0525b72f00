// Before   convolutions of f16 or bf16, and what stands between them: pointwise nodes, pooling, Resize, normalisation, movement
// After    the same nodes in f32, their constants too; Casts where other nodes hand values in or read them
// Unless   the processor multiplies that type (bf16 with AVX512-BF16), or the nodes run on a GPU
//          the weights are so many that their f32 form would cost more memory than it is worth
//          an operand of the convolution is dequantised: it becomes one of integers
//
// A processor widens 16-bit floats to multiply them, and its fast convolutions (Winograd's, depthwise ones) are those of f32: ResNets
// and U-Nets took up to twice the time of their f32 form. Results are rounded less often than in the type that the model was saved in.
#include <algorithm>
#include <set>

#include "fuse/match/in_type.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_weights = int64_t{64} << 20;  // elements: 256 MiB in f32

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

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

Outcome widen(const Graph& g, NodeId n, DType type) {
  if (!is_conv(g.node(n)) || g.value(g.node(n).out()).type != type) return NotHere{};
  const Region region(g, type);
  if (std::ranges::find(region.nodes(), n) == region.nodes().end())
    return refuse(Reason::wrong_producer, n, "an operand is dequantised");
  if (const int64_t count = region.weights(); count > most_weights)
    return refuse(Reason::not_profitable, n, "{} weights; up to {} are widened", count, most_weights);
  return Match{region.nodes(), [nodes = region.nodes(), n](Graph& graph) {
                 compute_in(graph, nodes, is_half, DType::f32);
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
