// The products and the gates of recurrent networks; for *.simd.cpp sources and the driver (ops/rnn/cpu_recurrent.cpp).
//
// Matrices are packed in panels, one for each `lanes` hidden units: panel [k][gates][lanes], so that all gates of a unit lie side
// by side. Units behind the last are zero.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

/// ONNX's functions of the gates, in the order of recurrent_functions (ops/rnn/cpu_plan.cpp).
enum class GateFunction : uint8_t {
  sigmoid,
  tanh,
  relu,
  affine,
  leaky_relu,
  thresholded_relu,
  scaled_tanh,
  hard_sigmoid,
  elu,
  softsign,
  softplus,
  clip
};
struct GateActivation {
  GateFunction function = GateFunction::sigmoid;
  float alpha = 0, beta = 0;
};

/// sums[row][panel] = start[panel] + a[row] · panel, for `rows` rows of `k` floats and `count` panels of `gates` registers.
struct PanelProduct {
  int gates;  // 1 … 4
  int64_t k, count, rows;
  const float* panels;
  const float* start;  // [count][gates · lanes]; null: 0
  const float* a;
  int64_t a_stride;  // floats
  float* sums;
  int64_t sums_stride;  // floats
};

/// One step of `rows` sequences over `panels` panels of hidden units. Pointers are to the first of those panels' elements; inputs
/// and sums are [gates][lanes] a panel, states one value a unit.
struct GateStep {
  int64_t rows, panels;
  const float* const* inputs;  // [rows]: what W makes of this step's input, with the biases
  const float* sums;           // what R makes of the state
  int64_t sums_stride;
  const float* before;  // the state
  float* after;
  float* cell;    // LSTM
  float* update;  // GRU that resets before its product: the update gate, kept for the second part
  float* scaled;  // the same: the state times the reset gate
  int64_t state_stride;
  const float* peepholes;  // LSTM: input, output, forget, peephole_stride apart; null: none
  int64_t peephole_stride;
  GateActivation f, g, h;
  float clip;    // infinity: none
  bool coupled;  // LSTM: the forget gate is 1 - the input gate
};

struct RecurrentSimd {
  int64_t lanes;
  /// Packs rows [gate · hidden + unit] of k elements for gates [first, first + count) and the panels [begin, end); `to` is the
  /// first of all panels.
  void (*pack)(simd::FloatKind type, const void* from, int64_t hidden, int64_t k, int64_t first, int64_t count, int64_t begin,
               int64_t end, float* to);
  void (*product)(const PanelProduct& p);
  void (*rnn)(const GateStep& s);
  void (*gru_linear)(const GateStep& s);     // linear_before_reset: three gates at once
  void (*gru_gates)(const GateStep& s);      // the other form: update and reset first; inputs of three gates, sums of two
  void (*gru_candidate)(const GateStep& s);  // then the candidate; sums of one
  void (*lstm)(const GateStep& s);
  /// n values as `type`, or of it.
  void (*store)(simd::FloatKind type, const float* from, int64_t n, void* to);
  void (*load)(simd::FloatKind type, const void* from, int64_t n, float* to);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::RecurrentSimd& recurrent_simd();
}
namespace smelt::avx2 {
const ops::RecurrentSimd& recurrent_simd();
}
namespace smelt::avx512 {
const ops::RecurrentSimd& recurrent_simd();
}
