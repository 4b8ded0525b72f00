// Programs of several pointwise nodes put together into one.
#pragma once

#include <span>
#include <vector>

#include "expr/program.h"
#include "fuse/match/pointwise.h"

namespace smelt::fuse {

/// What a fused operator computes before any further node: its value, and the program that makes it of the accumulator.
struct Base {
  ValueId value;          // what `program` gives
  expr::Program program;  // in0: the accumulator; then `operands`
  std::vector<ValueId> operands;
};

/// The program that computes `results` by the pointwise `nodes` (in topological order), of the base's value where there is
/// one. Values inside have their computing types; results are rounded to their own, or with `unrounded` are left as computed.
/// Constants of one element go into the program. Instructions that give the same value are written once, unneeded ones not.
Body compose(const Graph& g, const Base* base, std::span<const NodeId> nodes, std::span<const ValueId> results,
             bool unrounded = false);

/// The tensors a pointwise node reads: its inputs without those left out and the constants that go into a program, each once.
std::vector<ValueId> operands_of(const Graph& g, NodeId n);
bool is_pointwise(const Graph& g, NodeId n);

/// The same program without instructions that no output needs or that repeat another. Inputs stay.
expr::Program trimmed(const expr::Program& p);

}  // namespace smelt::fuse
