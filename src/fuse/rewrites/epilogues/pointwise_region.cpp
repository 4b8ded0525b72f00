// Before   pointwise nodes whose results have the same shape, connected by values; with them a DequantizeLinear with one scale whose
//          smaller result they alone read, spread over their shape (the gates of a squeeze-and-excite block)
// After    one ai.smelt.Pointwise; values that are read outside are its outputs
// Unless   a node is not pointwise
//          the result is shape arithmetic, which runs on the host
//          the shapes are not proven equal, a path leaves the region and comes back, or it would grow too large: the
//          region ends there
#include <algorithm>
#include <limits>
#include <set>

#include "fuse/match/compose.h"
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/match/pointwise.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr size_t max_operands = 12, max_outputs = 6, max_nodes = 64;
constexpr int max_operations = 96;
constexpr size_t most_readers = 64;  // of one value, that may join its region

/// Vectors and scalars of integers and truth values are the arithmetic of shapes and indices, but for bytes, which are quantized data,
/// and for vectors that are known to be long.
bool is_shape_arithmetic(const Graph& g, ValueId v, const Extents& shape) {
  constexpr int64_t longest = 1024;
  const DType type = g.value(v).type;
  if (is_float(type) || shape.size() > 1 || (bits(type) < 32 && type != DType::boolean)) return false;
  return shape.empty() || shape[0].number <= longest;
}

/// Whether n makes numbers of bytes with one scale, a few that are spread over `shape`: cheaper where they are read than written.
bool spreads_bytes(const Graph& g, NodeId n, const Extents& shape) {
  const Node& node = g.node(n);
  if (!node.is("DequantizeLinear") || g.is_output(node.out()) || !is_pointwise(g, n)) return false;
  const auto own = extents(g, node.out());
  return own && own->size() == shape.size() && *own != shape && broadcasts_to(*own, shape);
}

/// Whether one node reads what n makes of bytes, pointwise and spread over a larger shape: it belongs to that one's region.
bool belongs_to_larger(const Graph& g, NodeId n) {
  if (!g.node(n).is("DequantizeLinear")) return false;
  const NodeId reader = g.only_reader(g.node(n).out());
  if (reader == NodeId::none || !is_pointwise(g, reader)) return false;
  const auto larger = extents(g, g.node(reader).out());
  return larger && spreads_bytes(g, n, *larger);
}

class Region {
 public:
  /// `shape`: of the seed's output.
  Region(const Graph& g, NodeId seed, Extents shape) : g_(g), nodes_{seed}, shape_(std::move(shape)) {}

  void grow() {
    bool grown = true;
    while (grown && nodes_.size() < max_nodes) {
      grown = false;
      for (NodeId n : neighbours())
        if (fits(n)) {
          nodes_.push_back(n);
          grown = true;
          break;
        }
    }
    nodes_ = in_order(g_, nodes_);
  }

  const std::vector<NodeId>& nodes() const { return nodes_; }
  std::vector<ValueId> results() const { return results(nodes_); }

 private:
  bool inside(NodeId n) const { return std::find(nodes_.begin(), nodes_.end(), n) != nodes_.end(); }

  /// Values that something outside reads, in the order of the nodes.
  std::vector<ValueId> results(const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> r;
    for (NodeId n : nodes)
      for (ValueId v : g_.node(n).outputs) {
        const auto is_outside = [&](const Use& u) { return std::find(nodes.begin(), nodes.end(), u.node) == nodes.end(); };
        if (g_.is_output(v) || std::ranges::any_of(g_.readers(v), is_outside)) r.push_back(v);
      }
    return r;
  }

  /// Producers and readers of the region's values, by place in the graph, producers first.
  std::vector<NodeId> neighbours() const {
    std::vector<NodeId> found;
    auto add = [&](NodeId n) {
      if (n != NodeId::none && !never_.contains(n) && !inside(n) && std::find(found.begin(), found.end(), n) == found.end())
        found.push_back(n);
    };
    for (NodeId n : nodes_)
      for (ValueId v : g_.node(n).inputs)
        if (v != ValueId::none) add(g_.value(v).producer);
    for (NodeId n : nodes_)
      for (ValueId v : g_.node(n).outputs)
        for (const Use& u : g_.readers(v).first(std::min(g_.readers(v).size(), most_readers))) add(u.node);
    return found;
  }

  /// Whatever else is in the region.
  bool may_fit(NodeId n) const {
    if (!is_pointwise(g_, n)) return false;
    return std::ranges::all_of(g_.node(n).outputs, [&](ValueId v) {
      const auto e = extents(g_, v);
      return e && *e == shape_ && !is_shape_arithmetic(g_, v, *e);
    });
  }

  /// All that read n's result are in the region already.
  bool is_read_inside(NodeId n) const {
    return std::ranges::all_of(g_.readers(g_.node(n).out()), [&](const Use& u) { return inside(u.node); });
  }

  bool fits(NodeId n) {
    if (spreads_bytes(g_, n, shape_)) {
      if (!is_read_inside(n)) return false;  // not yet
    } else if (!may_fit(n)) {
      never_.insert(n);
      return false;
    }
    std::vector<NodeId> with = nodes_;
    with.push_back(n);
    if (!is_convex(with)) return false;
    const auto out = results(with);
    if (out.size() > max_outputs) return false;
    Body c = compose(g_, nullptr, in_order(g_, with), out);
    return c.operands.size() <= max_operands && c.program.operations() <= max_operations;
  }

  /// No path leaves the nodes and comes back. Nodes on such a path come after the first of the region.
  bool is_convex(const std::vector<NodeId>& nodes) const {
    std::set<NodeId> in(nodes.begin(), nodes.end()), seen;
    int64_t first = std::numeric_limits<int64_t>::max();
    for (NodeId n : nodes) first = std::min(first, g_.position(n));
    std::vector<NodeId> pending;
    auto visit = [&](NodeId n, bool from_inside) {
      for (ValueId v : g_.node(n).inputs) {
        if (v == ValueId::none) continue;
        const NodeId p = g_.value(v).producer;
        if (p == NodeId::none) continue;
        if (in.contains(p)) {
          if (!from_inside) return false;
        } else if (g_.position(p) > first && seen.insert(p).second) {
          pending.push_back(p);
        }
      }
      return true;
    };
    for (NodeId n : nodes) visit(n, true);
    while (!pending.empty()) {
      const NodeId n = pending.back();
      pending.pop_back();
      if (!visit(n, false)) return false;
    }
    return true;
  }

  const Graph& g_;
  std::vector<NodeId> nodes_;
  Extents shape_;
  std::set<NodeId> never_;  // neighbours that fit no region of this shape
};

}  // namespace

Outcome pointwise_region(const Graph& g, NodeId seed) {
  const Node& n = g.node(seed);
  if (!is_pointwise(g, seed)) return NotHere{};
  const ValueId y = n.out();
  if (n.is("Identity") || belongs_to_larger(g, seed)) return NotHere{};
  const std::optional<Extents> shape = extents(g, y);
  if (!shape) return refuse(Reason::unknown_shape, seed, "the rank of {} is not known", g.value(y).name);
  if (is_shape_arithmetic(g, y, *shape))
    return refuse(Reason::not_profitable, seed, "{} {} is shape arithmetic", name(g.value(y).type), g.value(y).name);
  Region region(g, seed, *shape);
  region.grow();
  const std::vector<NodeId>& nodes = region.nodes();
  if (nodes.size() == 1 && n.domain == smelt_domain) return NotHere{};
  const std::vector<ValueId> results = region.results();
  if (results.empty()) return NotHere{};
  Body c = compose(g, nullptr, nodes, results);
  // The operands broadcast to the outputs' shape; only constants of one element with more axes than all else could break that.
  Extents reached;
  for (ValueId v : c.operands)
    if (auto e = extents(g, v); e && e->size() > reached.size()) reached = *e;
  if (reached.size() != shape->size())
    return refuse(Reason::wrong_rank, seed, "{} gets its rank from a constant", g.value(y).name);
  Node fused = fused_node("Pointwise", c.operands, results);
  fused.program = c.program;
  return replacement(nodes, fused);
}

}  // namespace smelt::fuse
