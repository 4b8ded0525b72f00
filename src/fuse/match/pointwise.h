// From pointwise ONNX operators to the expression language: which nodes can be written as instructions, and the program of a
// group of them. Inside a program values of f16 and bf16 are f32: a chain of half-precision operators (Casts between float
// types included) rounds once, at the program's output.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fuse/match/rewrite.h"
#include "ops/core/expression.h"

namespace smelt::fuse {

using ops::computing_type;
using ops::required_computing_type;

/// The value of a constant of one element that a program can hold exactly.
std::optional<double> immediate(const Value& v);

/// Why node n cannot be written as instructions over its inputs' elements; nothing when it can. Pointwise are the
/// element-by-element operators of ONNX and com.microsoft, whose inputs broadcast, ai.smelt.Pointwise, and QuantizeLinear and
/// DequantizeLinear with one scale. Shapes are not looked at.
std::optional<Refusal> not_pointwise(const Graph& g, NodeId n);

/// Appends what n computes; args[i] is input i in its computing type, -1 where it is left out. Returns n's outputs, in their
/// computing types. not_pointwise(g, n) must have found nothing.
std::vector<expr::Ref> append_node(expr::Program& p, const Graph& g, NodeId n, std::span<const expr::Ref> args);

struct Body {
  expr::Program program;
  std::vector<ValueId> operands;  // what the program's inputs are, without in0
};

/// The program of pointwise nodes, given in topological order, that computes `results`, each cast to its value's type.
/// `in0`: a value that the fused operator computes itself; it becomes the program's first input, in the accumulator's type.
/// Constants of one element go into the program, other values from outside become operands in the order of first reading.
/// So a constant of higher rank than everything else it meets must be excluded by the caller (it would add axes).
Body pointwise_body(const Graph& g, std::span<const NodeId> nodes, std::span<const ValueId> results, ValueId in0 = ValueId::none);

}  // namespace smelt::fuse
