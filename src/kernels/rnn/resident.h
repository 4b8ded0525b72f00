// The constants and the arguments of rnn/resident.cuh.
#pragma once

#include "kernels/rnn/recurrent.h"

namespace smelt::kernels {

/// A cluster of `blocks` blocks runs one direction of `items` items of the batch; each block has hidden / blocks units, rounded up.
struct ResidentConfig {
  i32 gates, hidden, blocks, items;
  i32 lanes;           // that share a row of the recurrent weights, a power of two up to 32
  i32 kept, shared;    // chunks of a lane's columns whose weights lie in registers and in shared memory; others are read each step
  i32 reset_before;    // a GRU's hidden gate reads the state after the reset: two products a step
  i32 rounded;         // the products read the state as its 8 bits say it: DynamicQuantizeLSTM

  static constexpr i32 threads = 512;
  SMELT_SHARED constexpr i32 units() const { return (hidden + blocks - 1) / blocks; }
  SMELT_SHARED constexpr i32 rows() const { return gates * units(); }
  SMELT_SHARED constexpr i32 passes() const { return (rows() * lanes + threads - 1) / threads; }   // rows of a lane
  SMELT_SHARED constexpr i32 chunks() const { return (hidden + 4 * lanes - 1) / (4 * lanes); }     // of four columns, of a lane
  SMELT_SHARED constexpr i32 padded() const { return chunks() * 4 * lanes; }
  SMELT_SHARED constexpr i32 states() const { return 2 + reset_before; }
  /// Floats: shared weights, states of the items (this and the next step's in turn, one after the reset), and the sums.
  SMELT_SHARED constexpr i32 shared_floats() const {
    return shared * passes() * threads * 4 + states() * items * padded() + items * rows();
  }
};

template <class T, class I> struct ResidentArgs {
  RecurrentArgs<T, I> layer;
  float* products;     // [steps, batch, directions, gates * hidden]: x times w
};
static_assert(sizeof(ResidentArgs<void, void>) == 208);

}  // namespace smelt::kernels
