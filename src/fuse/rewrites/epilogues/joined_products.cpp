// Before   ai.smelt.MatMul nodes with the same first input, constant weights, and the same program (or none), whose operands are
//          the same value, or constants along the columns (a bias); a product without a bias among products with one
// After    ai.smelt.JoinedMatMul, with one result each: one product with all columns, whose readers read slices of its result
//          (plan/joined_products.h, which runs them apart where that takes less)
// Unless   a program differs from those of the other products, or reads another product's result (a gate's: up in its epilogue)
//          an operand is neither the same in all products nor a constant along the columns
//          weights are computed, or have more than two axes
//          a result is a graph output: it has to lie in memory of its own
//          the products are of 8-bit integers or floats: their scales and zero points stand for one matrix each
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

bool is_product(const Node& n) { return n.is("MatMul", smelt_domain); }

/// The program of a product that a bias is added to: what a product without one computes with a bias of zeros.
expr::Program adds_bias(DType type) {
  expr::Program p;
  const DType wide = accumulator(type);
  const expr::Ref sum = p.input(wide), bias = p.cast(p.input(type), wide);
  p.output(p.cast(p.call(expr::Fn::add, sum, bias), type));
  return p;
}

bool has_no_program(const Graph& g, const Node& n) {
  const DType type = g.value(n.out()).type;
  return n.inputs.size() == 2 && (!n.program || *n.program == expr::conversion(accumulator(type), type));
}

/// The columns of a product's weights; -1 where they are no constant matrix.
int64_t columns_of(const Graph& g, const Node& n) {
  const Value& w = g.value(n.in(1));
  if (!w.is_constant() || w.constant.rank() != 2) return -1;
  return w.constant.shape()[n.get_int("transB", 0) ? 0 : 1];
}

/// A constant of one value a column.
bool is_along_columns(const Graph& g, ValueId v, int64_t columns) {
  const Tensor& t = g.value(v).constant;
  return t.valid() && t.rank() > 0 && t.size() == columns && t.shape().back() == columns;
}

/// An operand that is one number for each row, or one for all.
bool is_same_in_all_columns(const Graph& g, ValueId v) {
  const auto& shape = g.value(v).shape;
  return shape && (shape->empty() || shape->back() == Dim(1));
}

/// Why a product joins no other; nothing where it may.
std::optional<Refusal> stands_alone(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const Value& w = g.value(n.in(1));
  if (!w.is_constant()) return refuse(Reason::not_constant, w.producer, "{} is computed", w.name);
  if (bits(w.type) <= 8) return refuse(Reason::wrong_type, id, "the weights {} are {}", w.name, smelt::name(w.type));
  const int64_t columns = columns_of(g, n);
  if (columns < 1)
    return refuse(Reason::wrong_rank, id, "the weights {} are no matrix: {}", w.name, smelt::to_string(w.constant.shape()));
  if (g.is_output(n.out())) return refuse(Reason::graph_output, id, "{} is a graph output", g.value(n.out()).name);
  for (size_t i = 2; i < n.inputs.size(); ++i) {
    const Value& operand = g.value(n.inputs[i]);
    if (is_along_columns(g, n.inputs[i], columns) || is_same_in_all_columns(g, n.inputs[i])) continue;
    const bool gated =
        operand.producer != NodeId::none && is_product(g.node(operand.producer)) && g.node(operand.producer).in(0) == n.in(0);
    if (gated)
      return refuse(Reason::wrong_producer, operand.producer, "its epilogue reads {}, another product of the same input",
                    operand.name);
    return refuse(Reason::wrong_shape, operand.producer,
                  "its operand {} is neither a constant along the columns nor one number a row", operand.name);
  }
  return std::nullopt;
}

/// What differs between two products that could be joined otherwise; empty where they can be.
std::string difference(const Graph& g, const Node& a, const Node& b) {
  const DType type = g.value(a.out()).type;
  if (g.value(b.out()).type != type) return "type";
  if (g.value(a.in(1)).type != g.value(b.in(1)).type) return "type of weights";
  const auto differs_in = [&](const char* attr) { return a.get_int(attr, 0) != b.get_int(attr, 0); };
  if (differs_in("transA") || differs_in("transB")) return "transposition";
  if (a.get_float("alpha", 1) != b.get_float("alpha", 1)) return "scale";
  if (g.value(a.in(1)).constant.shape()[a.get_int("transB", 0) ? 1 : 0] !=
      g.value(b.in(1)).constant.shape()[b.get_int("transB", 0) ? 1 : 0])
    return "depth";
  const bool none_a = has_no_program(g, a), none_b = has_no_program(g, b);
  if (none_a && none_b) return "";
  if (none_a || none_b) {
    const Node& with = none_a ? b : a;
    const bool bias = with.program == adds_bias(type) && is_along_columns(g, with.in(2), columns_of(g, with));
    return bias ? "" : "epilogue";
  }
  if (a.program != b.program || a.inputs.size() != b.inputs.size()) return "epilogue";
  for (size_t i = 2; i < a.inputs.size(); ++i) {
    const bool both = is_along_columns(g, a.inputs[i], columns_of(g, a)) && is_along_columns(g, b.inputs[i], columns_of(g, b));
    const bool same = a.inputs[i] == b.inputs[i] && is_same_in_all_columns(g, a.inputs[i]);
    if (!both && !same) return "operand";
  }
  return "";
}

Node joined(const Graph& g, const std::vector<NodeId>& products, bool bias) {
  Node n = fused_node("JoinedMatMul", {g.node(products[0]).in(0)}, {});
  n.attrs = g.node(products[0]).attrs;
  std::vector<std::string> names;
  for (NodeId p : products) {
    names.push_back(g.node(p).name);
    n.inputs.push_back(g.node(p).in(1));
    n.outputs.push_back(g.node(p).out());
    if (g.node(p).program) n.program = g.node(p).program;  // also one that only rounds to a type other than the input's
  }
  n.attrs["names"] = std::move(names);
  if (bias) n.program = adds_bias(g.value(n.out()).type);
  return n;
}

/// Makes the node. `bias`: products that have none get one of zeros.
NodeId apply_to(Graph& g, const std::vector<NodeId>& products, Node n, bool bias) {
  const Node first = g.node(products[0]);
  for (NodeId p : products) {
    const Node& one = g.node(p);
    n.inputs.insert(n.inputs.end(), one.inputs.begin() + 2, one.inputs.end());
    if (bias && one.inputs.size() == 2)
      n.inputs.push_back(g.add_constant("", Tensor::zeros(g.value(one.out()).type, {columns_of(g, one)})));
  }
  n.name = first.name;
  n.order = first.order;
  for (NodeId p : products) n.sources.insert(n.sources.end(), g.node(p).sources.begin(), g.node(p).sources.end());
  std::ranges::sort(n.sources);
  n.sources.erase(std::unique(n.sources.begin(), n.sources.end()), n.sources.end());
  for (NodeId p : products) g.remove_node(p);
  return g.add_node(std::move(n));
}

}  // namespace

Outcome joined_products(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!is_product(n) || g.value(n.in(0)).is_constant()) return NotHere{};
  std::vector<NodeId> others;  // products of the same input
  for (const Use& u : g.readers(n.in(0))) {
    const Node& other = g.node(u.node);
    if (u.node != id && u.input == 0 && is_product(other) && g.value(other.in(1)).is_constant()) others.push_back(u.node);
  }
  if (others.empty()) return NotHere{};
  if (auto no = stands_alone(g, id)) return *no;
  std::vector<NodeId> products = {id};
  std::optional<Refusal> why;
  const auto place = [&](NodeId at) { return std::pair(g.node(at).order, index(at)); };
  for (NodeId other : others) {
    if (auto no = stands_alone(g, other)) {
      if (!why) why = std::move(no);
      continue;
    }
    const std::string differs = difference(g, n, g.node(other));
    if (!differs.empty())
      why = refuse(Reason::wrong_reader, other, "{} reads the same input with another {}", describe(g, other), differs);
    else
      products.push_back(other);
  }
  if (products.size() < 2) {
    if (why) return *why;
    return NotHere{};
  }
  std::ranges::sort(products, {}, place);
  const auto without = std::ranges::count_if(products, [&](NodeId p) { return has_no_program(g, g.node(p)); });
  const bool bias = without > 0 && without < static_cast<std::ptrdiff_t>(products.size());
  std::string form = fmt::format("{} products", products.size());
  if (bias)
    form += " + bias of some";
  else if (without == 0)
    form += " + epilogue";
  return Match{products,
               [products, bias, node = joined(g, products, bias)](Graph& graph) { return apply_to(graph, products, node, bias); },
               std::move(form)};
}

}  // namespace smelt::fuse
