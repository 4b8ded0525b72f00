// Where the 16-byte vectors of a tile's rows lie in shared memory, and which of them a lane names to ldmatrix. For g++ and for
// NVRTC: tests count the banks that these meet (tests/ops/cuda/banks_test.cpp).
//
// Vectors are permuted so that eight rows' vectors of one column (what ldmatrix reads) and eight neighbouring vectors of one row
// (what copies write) each touch all 32 banks once, without padding.
//
//   RowBytes 32    four rows to a 128-byte line,  vector ^= (row / 4) % 2
//   RowBytes 64    two rows,                      vector ^= (row / 2) % 4
//   RowBytes 128   one row, or a multiple of it,  vector ^= row % 8
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Byte offset of vector `vector` of row `row`, from a tile that begins on 128 bytes.
template <int RowBytes> SMELT_SHARED constexpr u32 swizzled(u32 row, u32 vector) {
  static_assert(RowBytes == 32 || RowBytes == 64 || RowBytes % 128 == 0, "rows of 32, 64 or whole 128 bytes");
  if constexpr (RowBytes == 32) return row * 32 + ((vector ^ ((row >> 2) & 1)) << 4);
  else if constexpr (RowBytes == 64) return row * 64 + ((vector ^ ((row >> 1) & 3)) << 4);
  else return row * RowBytes + ((vector ^ (row & 7)) << 4);
}

/// The same of bytes whose lines run along M or N, four of them the bytes of one step of four of K. What ptx::ldmatrix_trans reads at
/// once is the vectors of one column of rows 4 p and 4 p + 1, or of 4 p + 2 and 4 p + 3, p from 0 to 3: of rows of 64 bytes or more
/// they touch all banks once, of shorter ones twice.
template <int RowBytes> SMELT_SHARED constexpr u32 swizzled_pairs(u32 row, u32 vector) {
  static_assert(RowBytes == 16 || RowBytes == 32 || RowBytes == 64 || RowBytes % 128 == 0, "rows of 16, 32, 64 or whole 128 bytes");
  if constexpr (RowBytes == 16) return row * 16 + (vector << 4);
  else if constexpr (RowBytes == 32) return row * 32 + ((vector ^ ((row >> 2) & 1)) << 4);
  else if constexpr (RowBytes == 64) return row * 64 + ((vector ^ ((row >> 2) & 3)) << 4);
  else return row * RowBytes + ((vector ^ ((row & 1) | (row >> 1 & 6))) << 4);
}

/// A lane's address of four 8 x 8 matrices (ptx::ldmatrix) of an operand whose lines run along K: a line of the fragment, and
/// bytes along it.
struct LaneAddress {
  u32 line, byte;
};
/// Of a left operand's (16 lines, 32 bytes): lines 0-7, lines 8-15, then the same 16 bytes further on.
SMELT_SHARED constexpr LaneAddress left_fragment(u32 lane) { return {lane % 16, lane / 16 * 16}; }
/// Of two of a right operand's (8 lines, 32 bytes): lines 0-7, the same 16 bytes further on, then lines 8-15.
SMELT_SHARED constexpr LaneAddress right_fragments(u32 lane) { return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 16}; }

/// Of bytes whose lines run along M or N, (32 lines, 16 bytes): a lane's line. The first two matrices are lines 4 p, 4 p + 1 and 4 p + 2,
/// 4 p + 3 of the first 16, p from 0 to 3, the others the same of the last 16. Transposed, a lane of row g and pair t has of them the
/// bytes 2 g and 2 g + 1 of lines 4 t … 4 t + 3, which `even_bytes` and `odd_bytes` (__byte_perm) make the words of two rows.
SMELT_SHARED constexpr u32 paired_line(u32 lane) { return lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2; }
constexpr u32 even_bytes = 0x6420, odd_bytes = 0x7531;

}  // namespace smelt::kernels
