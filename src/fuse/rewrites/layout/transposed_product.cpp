// Before   (a · bᵀ)ᵀ or (aᵀ · b)ᵀ: a Transpose of the last two axes behind a product, and any before one of its factors
// After    b · aᵀ, bᵀ · a: a Transpose less
// Unless   the product has another reader or is a graph output
//          a softmax reads the result along the rows: transposed_softmax takes that Transpose
//          the factors' ranks are not known, or are not the result's
#include <utility>

#include "fuse/match/moved.h"
#include "fuse/match/product_parts.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// A factor's transpose costs no further node: a Transpose makes the factor, and it swaps the last two axes or is read here alone.
bool is_turned(const Graph& g, ValueId v) {
  NodeId n;
  return made_by(g, v, "Transpose", &n) && (swaps_last_two(g, n) || (g.node(n).has("perm") && g.only_reader(v) != NodeId::none));
}

/// x with its last two axes exchanged: what it was made of, or of that by one Transpose, which is added in the place of `of`.
ValueId transposed(Graph& g, NodeId of, ValueId x) {
  NodeId made = NodeId::none;
  if (!is_turned(g, x) || !made_by(g, x, "Transpose", &made)) return add_swap(g, of, x);
  if (swaps_last_two(g, made)) return g.node(made).in(0);
  std::vector<int64_t> perm = g.node(made).get_ints("perm");
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return add_transpose(g, of, g.node(made).in(0), std::move(perm), with_last_two_swapped(shape_of(g, x)));
}

}  // namespace

Outcome transposed_product(const Graph& g, NodeId id) {
  if (!g.node(id).is("Transpose") || !swaps_last_two(g, id)) return NotHere{};
  const ValueId made = g.node(id).in(0);
  NodeId product;
  if (!made_by(g, made, "MatMul", &product)) return NotHere{};
  const ValueId a = g.node(product).in(0), b = g.node(product).in(1);
  if (!is_turned(g, a) && !is_turned(g, b)) return NotHere{};
  const int r = rank(g, made);
  for (const Use& u : g.readers(g.node(id).out()))
    if (const Node& n = g.node(u.node); n.is("Softmax") && (n.get_int("axis", -1) == r - 2 || n.get_int("axis", -1) == -2))
      return refuse(Reason::wrong_reader, u.node, "{} is over the axis that {} moves", describe(g, u.node), describe(g, id));
  const auto reader = reader_of(g, made);
  if (!reader) return reader.refusal();
  if (rank(g, a) != rank(g, made) || rank(g, b) != rank(g, made))
    return refuse(Reason::wrong_rank, product, "factors of {} and {} axes, a result of {}", rank(g, a), rank(g, b),
                  rank(g, made));
  return Match{{product, id}, [id, product, a, b](Graph& graph) {
                 const std::vector<ValueId> factors{transposed(graph, product, b), transposed(graph, product, a)};
                 graph.edit(id).op = "MatMul";
                 graph.edit(id).attrs.clear();
                 graph.set_inputs(id, factors);
                 graph.merge_sources(id, product);
                 return id;
               }};
}

}  // namespace smelt::fuse
