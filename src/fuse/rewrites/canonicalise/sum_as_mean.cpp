// Before   ReduceSum(x) / n, or times 1 / n, where n is the number of the elements that are added
// After    ReduceMean(x)
// Unless   the sum has another reader or is a graph output
//          the number is another one, or an extent is not known
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// How many elements of x are added to each other; nothing where it is not known.
std::optional<double> elements(const Graph& g, ValueId x, const std::vector<int64_t>& axes) {
  const auto all = extents(g, x);
  if (!all) return {};
  const auto r = static_cast<int64_t>(all->size());
  double n = 1;
  for (int64_t axis : axes) {
    if (axis < -r || axis >= r) return {};
    const Extent& e = (*all)[static_cast<size_t>(axis < 0 ? axis + r : axis)];
    if (!e.known()) return {};
    n *= static_cast<double>(e.number);
  }
  return n;
}

}  // namespace

Outcome sum_as_mean(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Div") && !n.is("Mul")) return NotHere{};
  const auto factor = constant_operand(g, id);
  NodeId sum;
  if (!factor || (n.is("Div") && factor->second != n.in(0)) || !made_by(g, factor->second, "ReduceSum", &sum)) return NotHere{};
  const auto axes = ints(g, sum, "axes", 1);
  const DType type = g.value(n.out()).type;
  if (!axes || axes->empty() || !is_real(type)) return NotHere{};
  const auto count = elements(g, g.node(sum).in(0), *axes);
  if (!count || *count < 1) return NotHere{};
  const bool fits = n.is("Div") ? factor->first == *count : close(factor->first, 1 / *count, type);
  if (!fits) return NotHere{};
  if (rank(g, n.out()) != rank(g, factor->second))  // by a constant of more axes
    return refuse(Reason::wrong_rank, id, "the result has rank {}, the sum {}", rank(g, n.out()), rank(g, factor->second));
  const std::vector<NodeId> nodes{sum, id};
  if (auto no = escapes(g, nodes, {n.out()})) return *no;
  Node mean = g.node(sum);
  mean.op = "ReduceMean";
  mean.outputs = {n.out()};
  return replacement(nodes, std::move(mean));
}

}  // namespace smelt::fuse
