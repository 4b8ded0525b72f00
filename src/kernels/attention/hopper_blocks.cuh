// Which rows a block of Hopper's attention has (attention/hopper.cuh), and how many tiles of keys they see.
#pragma once

#include "attention/problem.cuh"
#include "common/integers.cuh"
#include "kernels/attention/hopper.h"

/// A block's rows, and the tiles of keys that they see.
template <class A, MaskKind Mask> struct HopperAttentionPlace {
  u32 first_row, batch, head, tiles;
  __device__ __forceinline__ HopperAttentionPlace(const HopperAttentionArgs& a, u32 at) {
    // With a causal mask, the rows that see the most keys come first, since they take longest.
    constexpr bool descending = Mask == MaskKind::causal;
    const u32 row_tile = descending ? a.row_tiles - 1 - at / a.pairs : at % a.row_tiles;
    const u32 pair = descending ? at % a.pairs : at / a.row_tiles;
    batch = pair / a.heads, head = pair - batch * a.heads;
    first_row = row_tile * A::rows;
    u32 end = a.keys;
    if constexpr (Mask == MaskKind::causal) {
      const u32 last = (first_row + A::rows < a.queries ? first_row + A::rows : a.queries) - 1;
      const i64 seen = static_cast<i64>(last) + a.offset + 1;
      end = seen < 1 ? 1 : seen < end ? static_cast<u32>(seen) : end;       // rows that see nothing have a tile that is hidden
    }
    tiles = (end + A::keys - 1) / A::keys;
  }
};
