// The evaluator's vocabulary: loops over a block of contiguous elements, one for each function and type.
#pragma once

#include <cstdint>

namespace smelt::expr {

/// out[i] = f(a[i], b[i], c[i]) for i < n. Arguments beyond the function's arity are not read. `out` may be one of the arguments.
using BlockFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

/// The types that blocks have, densely numbered.
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

struct BlockTable {
  BlockFn function[block_functions][block_types];  // in functions.def's order, by argument type (select: of what it chooses)
  BlockFn cast[block_types][block_types];          // [from][to]; f16 and bf16 convert to f32 only, and from f32 and f64 only
};

}  // namespace smelt::expr

namespace smelt::base {
const expr::BlockTable& block_table();
}
namespace smelt::avx2 {
const expr::BlockTable& block_table();
}
