// What tests over the operators' rows share: nodes of a row, what the reference makes of them, and the program of their expression.
#pragma once

#include <onnx/defs/schema.h>

#include <optional>

#include "ops/core/expression.h"
#include "ops/core/facts.h"
#include "ops/core/program.h"
#include "ops/core/reference_kernel.h"
#include "ops/one_node.h"

namespace smelt::ops::test {

inline const onnx::OpSchema* schema_of(const OpRow& row) {
  return row.def.domain.empty() ? onnx::OpSchemaRegistry::Schema(std::string(row.def.op)) : nullptr;
}

inline bool is_pointwise_row(const OpRow& row) {
  return row.facts.elements == Elements::pointwise && !row.facts.expression.of_node;
}

/// Inputs that must be there; one more where there may be any number.
inline size_t least_inputs(const OpRow& row) {
  const auto* schema = schema_of(row);
  if (!schema) return row.facts.expression.operands();
  const bool variadic = schema->inputs().back().GetOption() == onnx::OpSchema::Variadic;
  return static_cast<size_t>(schema->min_input()) + (variadic ? 1 : 0);
}

/// What a node must say besides its inputs.
inline Attributes attributes_of(const OpRow& row, DType type) {
  if (row.def.op == "BitShift") return {{"direction", std::string("RIGHT")}};
  if (row.def.op == "Cast") return {{"to", static_cast<int64_t>(DType::f32)}};
  if (row.def.op == "BitCast") return {{"to", static_cast<int64_t>(type)}};
  return {};
}

inline Node node_of(const OpRow& row, size_t inputs, DType type) {
  return make_node(std::string(row.def.op), inputs, attributes_of(row, type), 1, std::string(row.def.domain));
}

/// Nothing where the operator is not defined for the type.
inline std::optional<Tensor> reference(const Node& n, const std::vector<Tensor>& in) {
  try {
    return evaluate(n, in)[0];
  } catch (const Error&) {
    return std::nullopt;
  }
}

inline void expect_alike(const Tensor& got, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(got.type(), wanted.type()) << what;
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  const auto a = got.to_doubles(), b = wanted.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    EXPECT_LE(std::abs(a[i] - b[i]), tolerance * (1 + std::abs(b[i]))) << what << ": " << a[i] << " for " << b[i] << " at " << i;
  }
}

/// What express writes for the node; nothing where the language has no program for the type.
inline std::optional<expr::Program> program(const Node& n, const std::vector<Tensor>& in, const Tensor& y, bool in_region) {
  expr::Program p;
  std::vector<Operand> operands;
  for (const Tensor& t : in) {
    if (operands.size() < facts(n).operands && !computing_type(t.type())) return std::nullopt;
    operands.push_back({true, operands.size() < facts(n).operands ? p.input(t.type()) : -1});
  }
  const auto lead = facts(n).expression.lead();
  const auto r = express({p, n, operands, *computing_type(in[lead].type()), y.type(), in_region});
  if (!r) return std::nullopt;
  p.output(p.cast(*r, y.type()));
  return p;
}

}  // namespace smelt::ops::test
