// The constants and the argument of attention/rotary.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

struct RotaryConfig {
  int pairs;                    // of a thread
  int threads;                  // of a block
  int x, y, cos, sin;           // how each is accessed: PairAccess
  int cos_single, sin_single;   // 1: the table has one entry a pair
};

/// T, Table: the elements' types; void on the host.
template <class T, class Table, int Rank> struct RotaryArgs {
  const T* x;                   // [rows…, D]
  T* y;                         // [rows…, D]
  const Table *cos, *sin;       // broadcast to [rows…, D], or to [rows…, D/2] where there is one entry a pair
  i64 second[4];                // of x, y, cos, sin: elements from the first of a pair to the other; 0 where there is one entry
  Walk<Rank, 4> walk;           // of the pairs' first elements in x, y, cos and sin
};

/// Two of them: the first `blocks` blocks have the first's pairs.
template <class T, class Table, int First, int Second> struct JoinedRotaryArgs {
  RotaryArgs<T, Table, First> first;
  RotaryArgs<T, Table, Second> second;
  u32 blocks, padding;
};

/// Bytes of a RotaryArgs, for a rank that the host knows at run time only.
SMELT_SHARED constexpr u64 rotary_bytes(int rank) { return 64 + walk_bytes(rank, 4); }
static_assert(sizeof(RotaryArgs<void, void, 1>) == rotary_bytes(1) && sizeof(RotaryArgs<void, void, 4>) == rotary_bytes(4) &&
              sizeof(JoinedRotaryArgs<void, void, 2, 3>) == rotary_bytes(2) + rotary_bytes(3) + 8);

}  // namespace smelt::kernels
