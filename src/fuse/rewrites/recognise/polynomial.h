// A pointwise formula seen as a polynomial, so that a pattern is recognised whatever the order, association and spelling in
// which an exporter wrote it: x * 0.5 * (1 + e), 0.5 * (x + x * e) and (x * (e + 1)) / 2 are the same polynomial in x and e.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// Coefficients by the exponents of the two variables; a term that is absent is 0.
using Polynomial = std::map<std::array<int, 2>, double>;

/// Follows Add, Sub, Mul, Div, Neg and Pow from a value down to one or two variables.
class Expansion {
 public:
  /// `y` may be none.
  Expansion(const Graph& g, ValueId x, ValueId y = ValueId::none) : g_(g), variables_{x, y} {}
  /// v as a polynomial of degree at most 4; nothing when something else is in it. The nodes gone through are added to nodes().
  std::optional<Polynomial> of(ValueId v);
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  const Graph& g_;
  std::array<ValueId, 2> variables_;
  std::vector<NodeId> nodes_;
  int depth_ = 0;
};

/// Every value that the formula behind v goes through, v first: the candidates for what a pattern calls x.
std::vector<ValueId> formula_values(const Graph& g, ValueId v);
/// The same terms, each coefficient equal up to a few units in the last place of the type.
bool equals(const Polynomial& p, const Polynomial& expected, DType type);

}  // namespace smelt::fuse
