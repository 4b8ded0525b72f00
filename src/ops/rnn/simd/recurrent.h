// The products and the gates of recurrent networks; for *.simd.cpp sources and the driver (ops/rnn/cpu_recurrent.cpp).
//
// Matrices are packed in panels, one for each `lanes` hidden units: panel [k][gates][lanes], so that all gates of a unit lie side by
// side. Units behind the last are zero.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

/// ONNX's functions of the gates, in the order of recurrent_functions (ops/rnn/cpu_recurrent.cpp).
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

/// A row of bytes with its range: x ≈ (q - zero) · scale.
struct QuantizedRow {
  float scale = 1;
  int32_t zero = 0, sum = 0;  // of all q
};

/// The same product of bytes: panels are [pairs of k][gates][lanes][2] of i8, rows hold u8 values as 16-bit integers, an even number
/// of them. Sums are floats: (a - a_zero) · (b - b_zero) · a_scale · b_scale + start.
struct BytePanelProduct {
  int gates;
  int64_t pairs, count, rows;
  const int8_t* panels;
  const float* start;      // [count][gates · lanes]; null: 0
  const float* scales;     // of B's columns, like `start`
  const int32_t* zeros;    // of B's columns; null: all 0
  const int32_t* offsets;  // Σ over k of (b - b_zero) of each column
  const int16_t* a;
  int64_t a_stride;
  const QuantizedRow* a_rows;  // of each row, a_row_step apart: 0 where one range holds for all, with `sum` in row_sums
  int64_t a_row_step;
  const int32_t* row_sums;  // null: those in a_rows
  float* sums;
  int64_t sums_stride;
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
  /// Packs rows [gate · hidden + unit] of k elements for gates [first, first + count) and the panels [begin, end); `to` is the first of all
  /// panels.
  void (*pack)(simd::FloatKind type, const void* from, int64_t hidden, int64_t k, int64_t first, int64_t count, int64_t begin,
               int64_t end, float* to);
  void (*product)(const PanelProduct& p);
  void (*byte_product)(const BytePanelProduct& p);
  void (*rnn)(const GateStep& s);
  void (*gru_linear)(const GateStep& s);     // linear_before_reset: three gates at once
  void (*gru_gates)(const GateStep& s);      // the other form: update and reset first; inputs of three gates, sums of two
  void (*gru_candidate)(const GateStep& s);  // then the candidate; sums of one
  void (*lstm)(const GateStep& s);
  /// to[0 … n) of `type`.
  void (*store)(simd::FloatKind type, const float* from, int64_t n, void* to);
  void (*load)(simd::FloatKind type, const void* from, int64_t n, float* to);
  /// Widens [low, high] to hold n values.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// q = rint(x / scale) + zero within 0 … 255; their sum.
  int32_t (*quantize)(const float* x, int64_t n, float scale, int32_t zero, int16_t* to);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::RecurrentSimd& recurrent_simd();
}
namespace smelt::avx2 {
const ops::RecurrentSimd& recurrent_simd();
}
