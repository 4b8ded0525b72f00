#include "fuse/match/estimate.h"

#include <algorithm>
#include <cmath>

#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

/// Integers of a shape: a few numbers that the host computes while shapes are bound.
bool is_shape_arithmetic(const Graph& g, const Node& n) {
  return !n.outputs.empty() && std::ranges::all_of(n.outputs, [&](ValueId v) {
    if (v == ValueId::none) return true;
    const Value& x = g.value(v);
    return x.type == DType::i64 && x.shape && x.shape->size() <= 1 && (x.shape->empty() || (*x.shape)[0].value <= 8);
  });
}

std::optional<int64_t> bytes_of(const Graph& g, ValueId v) {
  const Value& x = g.value(v);
  if (x.type == DType::string || x.type == DType::undefined) return std::nullopt;
  if (x.is_constant()) return x.constant.nbytes();
  if (!x.shape || !is_static(*x.shape)) return std::nullopt;
  return bytes(x.type, elements(to_shape(*x.shape)));
}

std::optional<Work> work_of(const Graph& g, const std::set<NodeId>& nodes) {
  Work sum;
  for (NodeId n : nodes) {
    if (!g.node(n).alive) continue;
    const auto w = work(g, n);
    if (!w) return std::nullopt;
    sum.bytes += w->bytes;
    sum.launches += w->launches;
  }
  return sum;
}

}  // namespace

std::optional<Work> work(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const ops::Elements elements = ops::facts(n).elements;
  const bool view = elements == ops::Elements::in_order || elements == ops::Elements::extents;
  if (view || is_shape_arithmetic(g, n)) return Work{};
  Work w{0, 1};
  std::set<ValueId> seen;
  for (const auto* list : {&n.inputs, &n.outputs})
    for (ValueId v : *list) {
      if (v == ValueId::none || !seen.insert(v).second) continue;
      const auto b = bytes_of(g, v);
      if (!b) return std::nullopt;
      w.bytes += *b;
    }
  return w;
}

double time_us(const Work& w, const Rates& rates) {
  if (rates.bytes_per_s <= 0) return 0;
  return static_cast<double>(w.bytes) / rates.bytes_per_s * 1e6 + w.launches * rates.launch_us;
}

Saving::Saving(const Graph& g, std::span<const NodeId> matched)
    : around_(matched.begin(), matched.end()), nodes_before_(g.node_count()) {
  // A Concat of thousands is beside each of its inputs, and hardly changes.
  constexpr size_t most_values = 64;
  const auto add = [&](NodeId neighbour) {
    if (g.node(neighbour).inputs.size() + g.node(neighbour).outputs.size() <= most_values) around_.insert(neighbour);
  };
  for (NodeId n : matched) {
    for (size_t i = 0; i < g.node(n).inputs.size(); ++i)
      if (NodeId p = g.producer(n, i); p != NodeId::none) add(p);
    for (ValueId v : g.node(n).outputs)
      if (v != ValueId::none)
        for (const Use& u : g.readers(v)) add(u.node);
  }
  before_ = work_of(g, around_);
}

double Saving::saved_us(const Graph& g, const Rates& rates) const {
  std::set<NodeId> after = around_;
  for (size_t i = nodes_before_; i < g.node_count(); ++i) after.insert(NodeId{static_cast<int32_t>(i)});
  const auto now = work_of(g, after);
  return before_ && now ? std::max(0.0, time_us(*before_, rates) - time_us(*now, rates)) : 0;
}

double cost_us(const Graph& g, NodeId n, const Rates& rates) {
  Work w{0, 1};
  bool read = false;
  for (ValueId v : g.node(n).outputs) {
    if (v == ValueId::none) continue;
    read = read || !g.readers(v).empty();
    const auto b = bytes_of(g, v);
    if (!b) return 0;
    w.bytes += 2 * *b;
  }
  return read ? time_us(w, rates) : 0;
}

}  // namespace smelt::fuse
