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

/// A lane's address of four 8 x 8 matrices (ptx::ldmatrix) of an operand whose lines run along K: a line of the fragment, and
/// bytes along it.
struct LaneAddress {
  u32 line, byte;
};
/// Of a left operand's (16 lines, 32 bytes): lines 0-7, lines 8-15, then the same 16 bytes further on.
SMELT_SHARED constexpr LaneAddress left_fragment(u32 lane) { return {lane % 16, lane / 16 * 16}; }
/// Of two of a right operand's (8 lines, 32 bytes): lines 0-7, the same 16 bytes further on, then lines 8-15.
SMELT_SHARED constexpr LaneAddress right_fragments(u32 lane) { return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 16}; }

}  // namespace smelt::kernels
