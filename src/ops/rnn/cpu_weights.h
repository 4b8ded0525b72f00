// W and R of recurrent networks in the panels that the CPU's products read (simd/recurrent.h): packed once where they are
// constant, in every run otherwise.
#pragma once

#include <optional>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/rnn/simd/byte_products.h"
#include "ops/rnn/simd/recurrent.h"

namespace smelt::ops {

/// Of a network of `hidden` units; that of bytes has the panels of byte_products().
const RecurrentSimd& recurrent_simd(int64_t hidden, bool bytes);
const ByteProducts& byte_products();
/// Of a row of k quantised values, whole groups of them.
int64_t byte_row(int64_t k);

/// Some of the gates of one input: [directions, all gates * hidden, k] floats, or [directions, k, all gates * hidden] bytes with
/// scales and zero points.
class RecurrentWeights {
 public:
  struct Form {
    size_t input = 0;  // its position; bytes have scales at `scale` and zero points behind those
    size_t scale = 0;  // 0: floats
    int64_t all_gates = 1, first = 0, gates = 1;
    int64_t hidden = 0, k = 0, directions = 1;
  };
  RecurrentWeights() = default;
  RecurrentWeights(const BoundNode& b, const Form& form);

  bool bytes() const { return form_.scale != 0; }
  int64_t k() const { return form_.k; }
  int64_t gates() const { return form_.gates; }
  int64_t panels() const { return panels_; }
  /// Values of a row of sums: all panels' columns.
  int64_t columns() const { return panels_ * form_.gates * simd_->lanes; }
  bool constant() const { return constant_; }
  /// Bytes that pack() fills; 0 where the weights are constant.
  int64_t workspace() const;
  void pack(const Buffers& b, void* workspace, int threads) const;

  /// Rows of floats, or of bytes, against panels [begin, end) of one direction.
  struct Rows {
    const void* a = nullptr;
    int64_t stride = 0, count = 0;         // of floats; of bytes
    const QuantizedRow* ranges = nullptr;  // of bytes: one for each row, or one for all with row_sums
    const int32_t* row_sums = nullptr;
  };
  void multiply(const void* workspace, int64_t direction, int64_t begin, int64_t end, const Rows& rows, const float* start,
                float* sums, int64_t sums_stride) const;

 private:
  int64_t block_bytes() const;      // of a gate's part of a group
  int64_t panel_bytes() const;      // of one direction
  int64_t direction_bytes() const;  // with its split groups
  /// Constant panels with the groups split that need it: as they are where these are many.
  Tensor split(Tensor panels) const;
  void pack_panels(const void* from, void* to, int threads) const;
  void pack_columns(const void* panels, const void* scale, const void* zero, void* to) const;

  Form form_;
  const RecurrentSimd* simd_ = nullptr;
  DType type_ = DType::f32;
  int64_t scales_ = 0, zeros_ = 0;  // of bytes: how many the inputs hold
  int64_t panels_ = 0;
  bool constant_ = false;
  std::optional<int64_t> most_split_;  // groups of a direction; nothing where none is, though they are many
  Tensor packed_, packed_columns_;
};

}  // namespace smelt::ops
