// Before   pointwise nodes, a reduction (ReduceSum, Mean, Max, Min, Prod, SumSquare, L2), pointwise nodes over its result; a
//          GlobalAveragePool or GlobalMaxPool where what is before it reads bytes: they are not written as floats first;
//          nodes behind may quantise
// After    one ai.smelt.Reduce: the nodes before as its program, those behind as its `post`
// Unless   the axes are computed, or all axes are meant and the rank is not known
//          the type is not a float
//          and on either side where a value has another reader, a node is not pointwise, or a shape is not proven the same
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr size_t most_nodes = 16, most_operands = 8;

std::string kind_of(const Node& n) {
  constexpr std::pair<std::string_view, std::string_view> kinds[] = {
      {"ReduceSum", "sum"}, {"ReduceMean", "mean"},           {"ReduceMax", "max"}, {"ReduceMin", "min"}, {"ReduceProd", "prod"},
      {"ReduceL2", "l2"},   {"ReduceSumSquare", "sum_square"}};
  for (auto& [op, kind] : kinds)
    if (n.is(op)) return std::string(kind);
  return "";
}

/// Of a pooling over all of an image; "" for other nodes.
std::string kind_of_pool(const Node& n) { return n.is("GlobalAveragePool") ? "mean" : n.is("GlobalMaxPool") ? "max" : ""; }

/// The pointwise nodes that compute x for this reduction alone, all of x's shape.
std::vector<NodeId> nodes_before(const Graph& g, NodeId reduce, ValueId x) {
  std::vector<NodeId> taken;
  auto alone = [&](ValueId v) {
    if (g.is_output(v)) return false;
    return std::all_of(g.readers(v).begin(), g.readers(v).end(), [&](const Use& u) {
      return u.node == reduce || std::find(taken.begin(), taken.end(), u.node) != taken.end();
    });
  };
  bool grown = true;
  while (grown && taken.size() < most_nodes) {
    grown = false;
    std::vector<ValueId> edge{x};
    for (NodeId n : taken) edge.insert(edge.end(), g.node(n).inputs.begin(), g.node(n).inputs.end());
    for (ValueId v : edge) {
      const NodeId maker = v == ValueId::none ? NodeId::none : g.value(v).producer;
      if (maker == NodeId::none || std::find(taken.begin(), taken.end(), maker) != taken.end()) continue;
      if (g.node(maker).outputs.size() != 1 || !alone(v) || !same_shape(g, v, x) || !is_pointwise(g, maker)) continue;
      std::vector<NodeId> with = taken;
      with.push_back(maker);
      if (compose(g, nullptr, in_order(g, with), std::span(&x, 1)).operands.size() > most_operands) continue;
      taken = with;
      grown = true;
      break;
    }
  }
  return in_order(g, taken);
}

/// x as it is: loaded and widened.
Body plain(const Graph& g, ValueId x) { return {expr::conversion(g.value(x).type, accumulator(g.value(x).type)), {x}}; }

}  // namespace

Outcome reduce_region(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const std::string pool = kind_of_pool(n), kind = pool.empty() ? kind_of(n) : pool;
  if (kind.empty()) return NotHere{};
  const ValueId x = n.in(0), y = n.out();
  const DType type = g.value(x).type;
  if (!is_real(type)) return refuse(Reason::wrong_type, id, "{} is {}", g.value(x).name, name(type));
  const int r = rank(g, x);
  if (r < 0) return refuse(Reason::unknown_shape, id, "the rank of {} is not known", g.value(x).name);
  auto axes = ints(g, id, "axes", 1);
  if (!pool.empty()) {
    axes.emplace();
    for (int i = 2; i < r; ++i) axes->push_back(i);
    if (axes->empty()) return NotHere{};
  }
  if (!axes && n.in(1) != ValueId::none) return refuse(Reason::not_constant, g.producer(id, 1), "the axes are computed");
  if (!axes || axes->empty()) {
    if (n.get_int("noop_with_empty_axes", 0)) return NotHere{};
    axes.emplace();
    for (int i = 0; i < r; ++i) axes->push_back(i);
  }
  for (int64_t& a : *axes) a = normalize_axis(a, r);
  std::sort(axes->begin(), axes->end());
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end())
    return refuse(Reason::wrong_attribute, id, "{} names an axis twice", describe(g, id));

  std::vector<NodeId> nodes = nodes_before(g, id, x);
  Body before = nodes.empty() ? plain(g, x) : compose(g, nullptr, nodes, std::span(&x, 1), true);
  // The rank must come from the operands, not from a constant that went into the program.
  if (std::none_of(before.operands.begin(), before.operands.end(), [&](ValueId v) { return same_shape(g, v, x); })) {
    nodes.clear();
    before = plain(g, x);
  }
  const auto is_bytes = [&](ValueId v) { return bits(g.value(v).type) == 8; };
  if (!pool.empty() && std::ranges::none_of(before.operands, is_bytes)) return NotHere{};  // the pooling's own kernels
  const Base base{y, expr::conversion(accumulator(type), g.value(y).type), {}};
  EpilogueLimits limits;
  limits.bytes = true;  // what is quantised is not written as floats first
  const Epilogue after = absorb(g, base, limits);

  Node fused = fused_node("Reduce", before.operands, {after.result});
  fused.inputs.insert(fused.inputs.end(), after.composition.operands.begin(), after.composition.operands.end());
  fused.program = before.program;
  fused.attrs["kind"] = kind;
  fused.attrs["axes"] = *axes;
  fused.attrs["keepdims"] = n.get_int("keepdims", 1);
  fused.attrs["inputs_before"] = static_cast<int64_t>(before.operands.size());
  const DType type_of_result = g.value(y).type;
  if (!after.nodes.empty())
    fused.attrs["post"] = after.composition.program.print();
  else if (accumulator(type_of_result) != type_of_result)
    fused.attrs["post"] = base.program.print();  // rounds the sums
  nodes.push_back(id);
  nodes.insert(nodes.end(), after.nodes.begin(), after.nodes.end());
  nodes = in_order(g, std::move(nodes));
  return replacement(nodes, fused);
}

}  // namespace smelt::fuse
