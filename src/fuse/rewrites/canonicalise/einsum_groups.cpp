// Before   Einsum of two operands whose letters are a product's in groups: "bqc,bchw->bqhw", "bhwc,hkc->bhwk", "abc,cde->abde",
//          "nkctv,kvw->nctw", "...qc,...kc->...qk"
// After    MatMul between the Transposes and Reshapes that the groups ask for
// Unless   a letter stands twice in a term, or is summed in one operand alone
//          nothing is summed, or neither operand has a letter of its own
//          extents that are multiplied are not proven to be equal, or several of a group are not known
//          the type is an integer of less than 32 bits, which MatMul is not defined for
#include <numeric>
#include <string>

#include "fuse/match/extents.h"
#include "fuse/match/moved.h"
#include "fuse/rewrites/canonicalise/einsum_terms.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// The term with a letter for each axis of its ellipsis, the last of `spare` for the last one; nothing where that does not fit.
std::optional<std::string> spelled(std::string term, int rank, const std::string& spare) {
  const size_t at = term.find("...");
  if (at == std::string::npos) return static_cast<int>(term.size()) == rank ? std::optional(term) : std::nullopt;
  const int axes = rank - static_cast<int>(term.size() - 3);
  if (axes < 0 || axes > static_cast<int>(spare.size())) return {};
  return term.replace(at, 3, spare.substr(spare.size() - static_cast<size_t>(axes)));
}

/// The terms of "a,b->y", letter by letter; nothing for another form, or a letter that stands twice in one.
std::optional<EinsumTerms> terms_of(std::string equation, int rank_a, int rank_b, int rank_y) {
  std::string spare;
  for (char c = 'A'; c <= 'Z'; ++c)
    if (!has(equation, c)) spare += c;
  const auto written = einsum_terms(std::move(equation));
  if (!written) return {};
  auto a = spelled(written->a, rank_a, spare), b = spelled(written->b, rank_b, spare), y = spelled(written->y, rank_y, spare);
  if (!a || !b || !y || !is_letters(*a) || !is_letters(*b) || !is_letters(*y)) return {};
  return EinsumTerms{std::move(*a), std::move(*b), std::move(*y)};
}

/// The letters of each group; those of the result in its order.
struct Groups {
  std::string batch, rows, columns, summed;
};
std::optional<Groups> groups_of(const EinsumTerms& t) {
  Groups r;
  for (char c : t.y) {
    if (!has(t.a, c) && !has(t.b, c)) return {};
    (has(t.a, c) && has(t.b, c) ? r.batch : has(t.a, c) ? r.rows : r.columns) += c;
  }
  for (char c : t.a) {
    if (has(t.y, c)) continue;
    if (!has(t.b, c)) return {};
    r.summed += c;
  }
  for (char c : t.b)
    if (!has(t.y, c) && !has(t.a, c)) return {};
  if (r.summed.empty() || (r.rows.empty() && r.columns.empty())) return {};
  return r;
}

/// The extent of a group of a value's axes; not known where one of them is not.
Dim merged(const SymShape& shape, const std::string& term, const std::string& group) {
  int64_t n = 1;
  for (char c : group) {
    const Dim& d = shape[term.find(c)];
    if (!d.known()) return group.size() == 1 ? d : Dim();
    n *= d.value;
  }
  return Dim(n);
}

/// More than one extent behind the first `batch` ones is not known: a Reshape can work out one.
bool too_open(const SymShape& shape, size_t batch) {
  return std::count_if(shape.begin() + static_cast<std::ptrdiff_t>(batch), shape.end(), [](const Dim& d) { return !d.known(); }) >
         1;
}

/// x with its axes in this order and then, where groups are not a letter each, behind a Reshape that keeps the first `batch` axes.
ValueId moved(Graph& g, NodeId of, ValueId x, const std::vector<int64_t>& perm, bool letters, const SymShape& shape,
              size_t batch) {
  std::vector<int64_t> same(perm.size());
  std::iota(same.begin(), same.end(), 0);
  const SymShape turned = permuted(shape_of(g, x), perm);
  if (perm != same) x = add_transpose(g, of, x, perm, turned);
  if (letters) return x;
  std::vector<int64_t> extents;
  for (size_t a = 0; a < shape.size(); ++a) extents.push_back(a < batch ? 0 : shape[a].known() ? shape[a].value : -1);
  const auto count = static_cast<int64_t>(extents.size());
  const ValueId to = g.add_constant(g.node(of).name + "_shape", Tensor::of<int64_t>({count}, extents));
  Node reshape = moved_in_place_of(g, of, "Reshape", {x, to}, shape);
  const ValueId y = reshape.outputs[0];
  g.add_node(std::move(reshape));
  return y;
}

}  // namespace

Outcome einsum_groups(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.is("Einsum") || n.inputs.size() != 2 || !std::holds_alternative<NotHere>(einsum_product(g, id))) return NotHere{};
  if (const DType type = g.value(n.in(0)).type; is_integer(type) && bits(type) < 32) return NotHere{};
  ValueId a = n.in(0), b = n.in(1);
  const int rank_a = rank(g, a), rank_b = rank(g, b), rank_y = rank(g, n.out());
  if (rank_a < 0 || rank_b < 0 || rank_y < 0)
    return refuse(Reason::unknown_shape, id, "the ranks of {} are not known", describe(g, id));
  const auto terms = terms_of(n.get_string("equation", ""), rank_a, rank_b, rank_y);
  if (!terms) return NotHere{};
  auto groups = groups_of(*terms);
  if (!groups) return NotHere{};
  EinsumTerms t = *terms;
  for (char c : groups->batch + groups->summed)
    if (extent(g, a, static_cast<int>(t.a.find(c))) != extent(g, b, static_cast<int>(t.b.find(c))))
      return refuse(Reason::unknown_shape, id, "the extents of '{}' in {} are not proven to be equal", c, describe(g, id));
  // The result is the transposed product where its columns come first: of the operands exchanged.
  if (!groups->rows.empty() && !groups->columns.empty() && t.y.find(groups->columns[0]) < t.y.find(groups->rows[0])) {
    std::swap(a, b);
    std::swap(t.a, t.b);
    std::swap(groups->rows, groups->columns);
  }
  const Groups r = *groups;
  const SymShape &of_a = shape_of(g, a), &of_b = shape_of(g, b);
  const size_t batch = r.batch.size();
  SymShape left = permuted(of_a, letter_order(t.a, r.batch)), right = left, product = left, made = left;
  const Dim rows = merged(of_a, t.a, r.rows), columns = merged(of_b, t.b, r.columns);
  left.push_back(rows), left.push_back(merged(of_a, t.a, r.summed));
  right.push_back(merged(of_b, t.b, r.summed)), right.push_back(columns);
  product.push_back(rows), product.push_back(columns);
  for (char c : r.rows) made.push_back(of_a[t.a.find(c)]);
  for (char c : r.columns) made.push_back(of_b[t.b.find(c)]);
  if (too_open(left, batch) || too_open(right, batch) || too_open(made, batch))
    return refuse(Reason::unknown_shape, id, "several extents of a group of {} are not known", describe(g, id));

  return Match{{id}, [=](Graph& graph) {
                 const auto letters = [](const std::string& first, const std::string& second) {
                   return first.size() == 1 && second.size() == 1;
                 };
                 const ValueId x = moved(graph, id, a, letter_order(t.a, r.batch + r.rows + r.summed), letters(r.rows, r.summed),
                                         left, batch),
                               w = moved(graph, id, b, letter_order(t.b, r.batch + r.summed + r.columns),
                                         letters(r.summed, r.columns), right, batch);
                 Node multiplied = moved_in_place_of(graph, id, "MatMul", {x, w}, product);
                 const ValueId sums = multiplied.outputs[0];
                 graph.add_node(std::move(multiplied));
                 std::vector<int64_t> same(product.size());
                 std::iota(same.begin(), same.end(), 0);
                 const ValueId apart = moved(graph, id, sums, same, letters(r.rows, r.columns), made, batch);
                 graph.edit(id).op = "Transpose";
                 graph.edit(id).attrs.clear();
                 graph.edit(id).attrs["perm"] = letter_order(r.batch + r.rows + r.columns, t.y);
                 graph.set_inputs(id, {apart});
                 return id;
               }};
}

}  // namespace smelt::fuse
