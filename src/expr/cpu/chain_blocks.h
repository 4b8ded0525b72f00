// The loops that compute whole chains of instructions of quantized graphs, for integers of 8 and 16 bits; null for other types.
#pragma once

#include "expr/cpu/blocks.h"

namespace smelt::expr {

struct ChainTable {
  BlockFn dequantize[block_types];         // f32(i32(a) - b) · c, of a's type; b is i32, c f32
  BlockFn dequantize_by_one[block_types];  // the same bits where b and c repeat one number, b one of fewer bits than f32's
  BlockFn quantize[block_types];           // round(a / b) + c within the type's limits, as the type; all f32
  BlockFn quantize_by_one[block_types];    // the same bits where b and c repeat one number, c a whole one of the type
  // quantize_by_one of x + y or x · y, with x = dequantize of a, and y of b: integers of the same type, or what f32 there is. c
  // holds ChainNumbers.
  BlockFn combine[2][2][block_types];  // [sum, product][f32, integers]
};

struct ChainNumbers {
  float zero[2], scale[2];  // of a and b
  float divisor, shift;     // of the result
};

}  // namespace smelt::expr

namespace smelt::base {
const expr::ChainTable& chain_table();
}
namespace smelt::avx2 {
const expr::ChainTable& chain_table();
}
namespace smelt::avx512 {
const expr::ChainTable& chain_table();
}
