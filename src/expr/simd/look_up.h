// Bytes by a table of all 256 of them, for *.simd.cpp sources and their callers.
#pragma once

#include <cstdint>

namespace smelt::expr {

/// to[i] = table[from[i]] for i < n; `to` may be `from`.
using LookUp = void (*)(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table);

}  // namespace smelt::expr

namespace smelt::base {
void look_up(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table);
}
namespace smelt::avx2 {
/// Sixteen permutations of 16 bytes for 32 elements.
void look_up(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table);
/// Two permutations of 128 bytes for 64 elements; null where the processor has none (AVX-512's VBMI).
expr::LookUp wide_look_up();
/// The faster of both.
expr::LookUp best_look_up();
}  // namespace smelt::avx2
