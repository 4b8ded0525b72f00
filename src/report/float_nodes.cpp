#include "report/float_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "fuse/match/estimate.h"

namespace smelt::report {
namespace {

constexpr std::array<std::string_view, 10> to_8_bits = {
    "quantized_softmax",    "quantized_conv",   "quantized_matmul", "quantized_movement", "quantized_concat",
    "quantized_transposed", "qlinear_operator", "qlinear_parts",    "dynamic_product",    "int8_by_constants"};

bool is_integer_product(const Node& n) {
  return n.op.starts_with("QLinear") || n.op == "StemQLinearConv" || n.op == "MatMulInteger" || n.op == "ConvInteger" ||
         n.op == "QGemm" || n.op == "BlockMatMul" || n.op == "DynamicQuantizeMatMul" || n.op == "MatMulIntegerToFloat" ||
         n.op == "DynamicQuantizeLSTM";
}
bool is_product(const Node& n) {
  return n.op == "Conv" || n.op == "ConvTranspose" || n.op == "MatMul" || n.op == "Gemm" || n.op == "JoinedMatMul";
}

/// A tensor of floats that is no single number; one of unknown extents is taken for such.
bool has_floats(const Graph& g, ValueId v) {
  if (v == ValueId::none) return false;
  const Value& x = g.value(v);
  if (x.type != DType::f32 && x.type != DType::f16 && x.type != DType::bf16) return false;
  return !x.shape || !is_static(*x.shape) || elements(to_shape(*x.shape)) > 1;
}

/// Elements of a tensor of floats; 0 of others and where they are not known.
int64_t floats_of(const Graph& g, ValueId v) {
  if (!has_floats(g, v)) return 0;
  const auto& shape = g.value(v).shape;
  return shape && is_static(*shape) ? elements(to_shape(*shape)) : 0;
}

/// Bytes of the node's floats beyond one each.
int64_t bytes_beyond_8_bits(const Graph& g, const Node& n) {
  int64_t sum = 0;
  std::set<ValueId> seen;
  for (const auto* list : {&n.inputs, &n.outputs})
    for (ValueId v : *list)
      if (v != ValueId::none && seen.insert(v).second) sum += floats_of(g, v) * (bytes(g.value(v).type, 1) - 1);
  return sum;
}

bool computes_floats(const Graph& g, const Node& n) {
  const auto is_computed = [&](ValueId v) { return has_floats(g, v) && !g.value(v).is_constant(); };
  return std::ranges::any_of(n.inputs, is_computed) || std::ranges::any_of(n.outputs, is_computed);
}

std::string operator_name(const Node& n) { return n.domain.empty() ? n.op : n.domain + "." + n.op; }

}  // namespace

bool is_conversion(std::string_view op) {
  return op == "QuantizeLinear" || op == "DequantizeLinear" || op == "DynamicQuantizeLinear";
}

const fuse::Entry* rejection_to_8_bits(const fuse::Ledger& ledger, const std::vector<std::string>& nodes) {
  for (auto e = ledger.rbegin(); e != ledger.rend(); ++e) {  // clang++ 14 does not compile libstdc++'s views
    if (e->matched || std::ranges::find(to_8_bits, e->rewrite) == to_8_bits.end()) continue;
    if (std::ranges::any_of(e->nodes, [&](const std::string& n) { return std::ranges::find(nodes, n) != nodes.end(); }))
      return &*e;
  }
  return nullptr;
}

bool is_quantized(const Graph& g) {
  return std::ranges::any_of(g.topological(),
                             [&](NodeId n) { return is_conversion(g.node(n).op) || is_integer_product(g.node(n)); });
}

std::vector<FloatNode> float_nodes(const Graph& g, const fuse::Ledger& ledger, const fuse::Rates& rates) {
  std::vector<FloatNode> found;
  for (NodeId id : g.topological()) {
    const Node& n = g.node(id);
    if (is_conversion(n.op) || is_integer_product(n) || !computes_floats(g, n)) continue;
    const auto work = fuse::work(g, id);
    if (work && work->launches == 0) continue;  // a view
    FloatNode f;
    f.op = operator_name(n);
    std::set<std::string> ops;  // of the model, but conversions
    for (int32_t s : n.sources) {
      const SourceNode& source = g.sources()[static_cast<size_t>(s)];
      f.nodes.push_back(source.name);
      if (!is_conversion(source.op_type)) ops.insert(source.op_type);
    }
    if (f.nodes.empty()) f.nodes.push_back(n.name), ops.insert(n.op);
    if (ops.empty()) continue;
    f.cost_us = fuse::time_us({bytes_beyond_8_bits(g, n), 0}, rates);
    if (const fuse::Entry* e = rejection_to_8_bits(ledger, f.nodes)) {
      f.reason = e->reason, f.detail = e->detail;
    } else if (is_product(n)) {
      f.reason = "not_quantized", f.detail = fmt::format("{} does not come from 8 bits", g.value(n.in(0)).name);
    } else {
      f.reason = "no_8_bit_form", f.detail = fmt::format("{} reads or writes floats", fmt::join(ops, ", "));
    }
    found.push_back(std::move(f));
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &FloatNode::cost_us);
  return found;
}

}  // namespace smelt::report
