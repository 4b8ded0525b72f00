// Chains of instructions that quantized graphs are full of, each computed by one loop of the CPU evaluator.
#pragma once

#include <map>
#include <vector>

#include "expr/cpu/chain_blocks.h"
#include "expr/program.h"

namespace smelt::expr {

/// The index of a type in a table of blocks; throws Error for a type that has no blocks.
int type_index(DType t);

/// Numbers from quantized ones, (from - zero) · scale, or quantized ones from numbers, round(from / scale) + zero within the type's
/// limits (chain_blocks.h).
struct Chain {
  bool quantizes = false;
  Ref from = -1, zero = -1, scale = -1;  // zero: -1 where nothing is added or taken off
  std::vector<Ref> inside;               // what nothing but the chain reads
};

/// The chains of a program by their last instruction, of those that are live.
std::map<Ref, Chain> find_chains(const Program& p, const std::vector<bool>& live, const ChainTable& table);

}  // namespace smelt::expr
