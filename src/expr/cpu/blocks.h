// The loops that the CPU evaluator is made of: one for each function and type, over a block of contiguous elements.
#pragma once

#include <cstdint>

namespace smelt::expr {

/// Computes out[i] = f(a[i], b[i], c[i]) for i < n. Does not read arguments beyond the function's arity. `out` may be an argument
/// of the same width.
using BlockFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

/// The element types of blocks: what programs compute in, and f16 and bf16.
enum class BlockType : uint8_t { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, f16, bf16, count };
inline constexpr int block_types = static_cast<int>(BlockType::count);
/// The functions that blocks compute: the rows of functions.def, in its order.
enum class BlockFunction : uint8_t {
#define SMELT_FN(id, ...) id,
#include "expr/functions.def"
#undef SMELT_FN
  count
};
inline constexpr int block_functions = static_cast<int>(BlockFunction::count);

/// `rows` rows of n elements of 1, 2, 4 or 8 bytes each to contiguous memory; strides count elements.
using GatherFn = void (*)(void* to, const void* from, int64_t stride, int64_t n, int64_t row_stride, int64_t rows);

struct BlockTable {
  BlockFn function[block_functions][block_types];  // [BlockFunction][argument type]; select: of its second
  BlockFn cast[block_types][block_types];          // [from][to]; f16 and bf16: to f32 only, from f32 and f64 only
  GatherFn gather[4];                              // of elements of 1, 2, 4 and 8 bytes
};

}  // namespace smelt::expr

namespace smelt::base {
const expr::BlockTable& block_table();
}
namespace smelt::avx2 {
const expr::BlockTable& block_table();
}
namespace smelt::avx512 {
const expr::BlockTable& block_table();
}
