// What the rewrites that recognise an activation spelled out in parts have in common: from the characteristic operator (Erf,
// Sigmoid, Clip, …) forward to the node where the formula is complete.
#pragma once

#include "expr/program.h"
#include "fuse/rewrites/recognise/polynomial.h"

namespace smelt::fuse {

/// A formula of x around one inner node: result = `outer` as a polynomial in x (first variable) and the node's output (second).
struct ActivationPattern {
  expr::Fn fn;            // the function it is, of x alone
  std::string_view name;  // for details
  Polynomial outer;
  std::vector<NodeId> argument;  // nodes between x and the inner node
};

/// Matches from the inner node on: nodes are fused into ai.smelt.Pointwise with the program fn(x).
Outcome match_activation(const Graph& g, NodeId inner, ValueId x, const ActivationPattern& pattern);

/// The program of one function of one input in its own type: computed in the accumulator's type, rounded at the end.
expr::Program unary_program(expr::Fn fn, DType type);

}  // namespace smelt::fuse
