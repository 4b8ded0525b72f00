#include "fuse/rewrites/recognise/polynomial.h"

#include <algorithm>
#include <cmath>

namespace smelt::fuse {
namespace {

constexpr int max_degree = 4, max_depth = 12;

Polynomial sum(const Polynomial& a, const Polynomial& b, double sign) {
  Polynomial r = a;
  for (auto& [e, c] : b) r[e] += sign * c;
  return r;
}

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial r;
  for (auto& [ea, ca] : a)
    for (auto& [eb, cb] : b) {
      std::array<int, 2> e{ea[0] + eb[0], ea[1] + eb[1]};
      if (e[0] + e[1] > max_degree) return {};
      r[e] += ca * cb;
    }
  return r;
}

bool is_formula(const Node& n) {
  return n.domain == onnx_domain &&
         (n.op == "Add" || n.op == "Sub" || n.op == "Mul" || n.op == "Div" || n.op == "Neg" || n.op == "Pow");
}

}  // namespace

std::optional<Polynomial> Expansion::of(ValueId v) {
  if (v == ValueId::none) return {};
  if (v == variables_[0]) return Polynomial{{{1, 0}, 1.0}};
  if (v == variables_[1]) return Polynomial{{{0, 1}, 1.0}};
  if (auto c = scalar(g_, v)) return Polynomial{{{0, 0}, *c}};
  NodeId id = g_.value(v).producer;
  if (id == NodeId::none || !is_formula(g_.node(id)) || depth_ >= max_depth) return {};
  const Node& n = g_.node(id);
  ++depth_;
  auto a = of(n.in(0));
  auto b = n.inputs.size() > 1 ? of(n.in(1)) : std::optional<Polynomial>();
  --depth_;
  if (!a || (n.inputs.size() > 1 && !b)) return {};
  if (std::find(nodes_.begin(), nodes_.end(), id) == nodes_.end()) nodes_.push_back(id);
  if (n.op == "Neg") return product(*a, {{{0, 0}, -1.0}});
  if (n.op == "Add" || n.op == "Sub") return sum(*a, *b, n.op == "Add" ? 1 : -1);
  if (n.op == "Mul") return product(*a, *b);
  auto constant = b->size() == 1 && b->begin()->first == std::array<int, 2>{0, 0} ? b->begin()->second : 0.0;
  if (n.op == "Div") return constant == 0 ? std::nullopt : product(*a, {{{0, 0}, 1 / constant}});
  if (constant != std::floor(constant) || constant < 1 || constant > max_degree) return {};  // Pow
  std::optional<Polynomial> r = a;
  for (int i = 1; r && i < static_cast<int>(constant); ++i) r = product(*r, *a);
  return r;
}

std::vector<ValueId> formula_values(const Graph& g, ValueId v) {
  std::vector<ValueId> found{v};
  for (size_t i = 0; i < found.size() && found.size() < 32; ++i) {
    NodeId id = g.value(found[i]).producer;
    if (id == NodeId::none || !is_formula(g.node(id))) continue;
    for (ValueId u : g.node(id).inputs)
      if (!g.value(u).is_constant() && std::find(found.begin(), found.end(), u) == found.end()) found.push_back(u);
  }
  return found;
}

bool equals(const Polynomial& p, const Polynomial& expected, DType type) {
  for (auto& [e, c] : expected)
    if (!p.contains(e) || !close(p.at(e), c, type, 4)) return false;
  for (auto& [e, c] : p)
    if (!expected.contains(e) && c != 0) return false;
  return true;
}

}  // namespace smelt::fuse
