// Chains of instructions that quantized graphs are full of, each computed by one loop of the CPU evaluator.
#pragma once

#include <map>
#include <vector>

#include "expr/cpu/chain_blocks.h"
#include "expr/program.h"

namespace smelt::expr {

/// The index of a type in a table of blocks; throws Error for a type that has no blocks.
int type_index(DType t);

/// What one loop of chain_blocks.h computes. zero is -1 where nothing is added or taken off.
struct Chain {
  enum class Kind : uint8_t { dequantize, quantize, quantize_by_one, combine };
  Kind kind = Kind::dequantize;
  Ref from = -1, zero = -1, scale = -1;
  std::vector<Ref> inside;  // what nothing but the chain reads
  // Of a combination: quantize_by_one of from's and other's sum or product.
  Ref other = -1;
  ChainNumbers numbers{};
  BlockFn fn = nullptr;
};

/// The chains of a program by their last instruction, of those that are live.
std::map<Ref, Chain> find_chains(const Program& p, const std::vector<bool>& live, const ChainTable& table);

}  // namespace smelt::expr
