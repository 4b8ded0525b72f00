// Copies of 16 bytes that may begin at any address, from global to shared memory, by way of registers: the thread waits for them.
//
//   const uint4 x = load_anywhere(from, count);    bytes from, from + 1, … of memory, zeros from the count-th on
//   ptx::st_shared_v4_u32(to, x.x, x.y, x.z, x.w);
//
// Memory is read by aligned words. No byte behind the last that counts is read. Up to three before the first may be, which lie in
// its word: in a buffer that begins at a multiple of four bytes.
#pragma once

#include "common/types.cuh"

__device__ __forceinline__ uint4 load_anywhere(const void* from, int count) {
  const u32 ahead = static_cast<u32>(reinterpret_cast<u64>(from)) & 3;      // bytes of the first word before `from`
  const u8* const first = static_cast<const u8*>(from) - ahead;
  const int bytes = count <= 0 ? 0 : static_cast<int>(ahead) + (count < 16 ? count : 16), whole = bytes / 4;
  u32 word[5];
#pragma unroll
  for (int w = 0; w < 5; ++w) word[w] = w < whole ? reinterpret_cast<const u32*>(first)[w] : 0;
  if (bytes % 4 != 0) {                                                     // so that whole < 5
    u32 last = 0;
#pragma unroll
    for (int b = 0; b < 3; ++b)
      if (b < bytes % 4) last |= static_cast<u32>(first[whole * 4 + b]) << (8 * b);
#pragma unroll
    for (int w = 0; w < 5; ++w) word[w] = w == whole ? last : word[w];
  }
  const u32 selector = 0x3210u + ahead * 0x1111u;
  return {__byte_perm(word[0], word[1], selector), __byte_perm(word[1], word[2], selector), __byte_perm(word[2], word[3], selector),
          __byte_perm(word[3], word[4], selector)};
}
