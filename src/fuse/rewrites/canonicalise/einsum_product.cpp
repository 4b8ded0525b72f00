// Before   Einsum of two operands that is a product of matrices: "bhid,bhjd->bhij", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"
// After    MatMul between the Transposes that the letters ask for
// Unless   a letter stands twice in a term, or an ellipsis does
//          not exactly one letter is summed, and one is each operand's own
//          a letter that both operands have stands in no other place
//          the extents that are multiplied are not proven to be equal
//          the type is an integer of less than 32 bits, which MatMul is not defined for
#include <string>

#include "fuse/match/extents.h"
#include "fuse/match/moved.h"
#include "fuse/rewrites/canonicalise/einsum_terms.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The terms of "a,b->y"; nothing for another form, an ellipsis, a letter that stands twice.
std::optional<EinsumTerms> terms_of(std::string equation) {
  auto t = einsum_terms(std::move(equation));
  return t && is_letters(t->a) && is_letters(t->b) && is_letters(t->y) ? t : std::nullopt;
}

/// The letters of each role; those of the batch in the result's order.
struct Roles {
  std::string batch, rows, columns, summed;
};
std::optional<Roles> roles_of(const EinsumTerms& t) {
  Roles r;
  for (char c : t.y) (has(t.a, c) && has(t.b, c) ? r.batch : has(t.a, c) ? r.rows : r.columns) += c;
  for (char c : t.a)
    if (!has(t.y, c)) (has(t.b, c) ? r.summed : r.rows) += c;  // one that is summed in a alone is no role: two rows
  for (char c : t.b)
    if (!has(t.y, c) && !has(t.a, c)) return {};
  for (char c : r.columns)
    if (!has(t.b, c)) return {};
  if (r.rows.size() != 1 || !has(t.y, r.rows[0]) || r.columns.size() != 1 || r.summed.size() != 1) return {};
  return r;
}

/// The operand in another order of its axes: a Transpose added to the graph where they do not lie so.
ValueId turned(Graph& g, NodeId of, ValueId x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  const std::vector<int64_t> perm = letter_order(from, to);
  return add_transpose(g, of, x, perm, permuted(shape_of(g, x), perm));
}

}  // namespace

Outcome einsum_product(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Einsum") || n.inputs.size() != 2) return NotHere{};
  if (const DType type = g.value(n.in(0)).type; is_integer(type) && bits(type) < 32) return NotHere{};
  auto terms = terms_of(n.get_string("equation", ""));
  if (!terms) return NotHere{};
  EinsumTerms t = *terms;
  auto roles = roles_of(t);
  if (!roles) return NotHere{};
  ValueId a = n.in(0), b = n.in(1);
  if (t.y.find(roles->columns[0]) <
      t.y.find(roles->rows[0])) {  // the result is the transposed product: of the operands exchanged
    std::swap(a, b);
    std::swap(t.a, t.b);
    std::swap(roles->rows, roles->columns);
  }
  if (rank(g, a) != static_cast<int>(t.a.size()) || rank(g, b) != static_cast<int>(t.b.size()) ||
      rank(g, n.out()) != static_cast<int>(t.y.size()))
    return refuse(Reason::unknown_shape, id, "the ranks of {} are not known", describe(g, id));
  const Extent left = extent(g, a, static_cast<int>(t.a.find(roles->summed[0])));
  const Extent right = extent(g, b, static_cast<int>(t.b.find(roles->summed[0])));
  if (left != right)
    return refuse(Reason::unknown_shape, id, "the summed extents of {} are not proven to be equal", describe(g, id));

  const Roles r = *roles;
  return Match{{id}, [id, t, r, a, b](Graph& graph) {
                 const ValueId y = graph.node(id).out(), left_rows = turned(graph, id, a, t.a, r.batch + r.rows + r.summed),
                               right_columns = turned(graph, id, b, t.b, r.batch + r.summed + r.columns);
                 const std::string made = r.batch + r.rows + r.columns;
                 if (made == t.y) {
                   graph.edit(id).op = "MatMul";
                   graph.edit(id).attrs.clear();
                   graph.set_inputs(id, {left_rows, right_columns});
                   return id;
                 }
                 Node product = moved_in_place_of(graph, id, "MatMul", {left_rows, right_columns},
                                                  permuted(shape_of(graph, y), letter_order(t.y, made)));
                 const ValueId between = product.outputs[0];
                 graph.add_node(std::move(product));
                 graph.edit(id).op = "Transpose";
                 graph.edit(id).attrs.clear();
                 graph.edit(id).attrs["perm"] = letter_order(made, t.y);
                 graph.set_inputs(id, {between});
                 return id;
               }};
}

}  // namespace smelt::fuse
