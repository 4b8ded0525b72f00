// Shared memory: its addresses, and where the 16-byte vectors of a tile's rows lie in it. They are permuted so that eight rows'
// vectors of one column (what ldmatrix reads) and eight neighbouring vectors of one row (what copies write) each touch all 32
// banks once, without padding.
//
//   RowBytes 32    four rows to a 128-byte line,  vector ^= (row / 4) % 2
//   RowBytes 64    two rows,                      vector ^= (row / 2) % 4
//   RowBytes 128   one row, or a multiple of it,  vector ^= row % 8
#pragma once

#include "common/types.cuh"

/// The address that ldmatrix, copy_async and their like take, of a generic pointer into shared memory.
__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

/// Byte offset of vector `vector` of row `row`, from a tile that begins on 128 bytes.
template <int RowBytes> __host__ __device__ __forceinline__ constexpr u32 swizzled(u32 row, u32 vector) {
  static_assert(RowBytes == 32 || RowBytes == 64 || RowBytes % 128 == 0, "rows of 32, 64 or whole 128 bytes");
  if constexpr (RowBytes == 32) return row * 32 + ((vector ^ ((row >> 2) & 1)) << 4);
  else if constexpr (RowBytes == 64) return row * 64 + ((vector ^ ((row >> 1) & 3)) << 4);
  else return row * RowBytes + ((vector ^ (row & 7)) << 4);
}
