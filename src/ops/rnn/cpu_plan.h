// How a recurrent network runs on the CPU: its extents and weights, how threads share it, and where its scratch memory lies.
#pragma once

#include <vector>

#include "ops/core/align.h"
#include "ops/cpu/rows/rows.h"
#include "ops/rnn/cpu_weights.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {

bool is_quantized_lstm(const Node& n);

/// Scratch memory, cut in pieces.
class Cutter {
 public:
  int64_t take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += aligned(bytes);
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

/// Sequences that do not wait for each other (the directions, parts of the batch) are groups. A thread runs a whole group without
/// a barrier; where a step is long enough, its units are `team` shares, and a region of threads computes it. Each step reads all of
/// R: where a direction's does not fit a core's own cache beside the rest, the directions run one after another, so that a thread's
/// share of one of them is what the cache has to keep from step to step.
struct RecurrentPlan {
  /// Shares of all groups, at most.
  static constexpr int64_t most_shares = 64;

  RecurrentPlan(const BoundNode& b, int threads);

  Recurrent s;
  bool quantized;
  const RecurrentSimd& simd;
  FloatKind type;
  int64_t element;         // bytes
  int64_t panels, padded;  // of hidden units
  bool resets_first;       // GRU: the state is reset before its product with R, which is one of its own
  bool coupled;
  RecurrentWeights w, r, candidate;
  std::vector<bool> given;  // inputs
  DType length_type = DType::i32;
  std::vector<GateActivation> functions;  // of each direction
  int threads = 1, team = 1;
  int64_t parts = 1;        // of the batch
  bool in_turn = false;     // directions run one after another
  int64_t turn_panels = 0;  // panels of R that a product takes at once, the other way round in every second step; 0: all

  /// Offsets in scratch memory.
  Cutter memory;
  int64_t packed_at[3] = {}, order_at = 0, biases_at = 0, peepholes_at = 0, x_at = 0, x_bytes_at = 0, x_sums_at = 0;
  int64_t inputs_at = 0, state_at[4] = {}, threads_at = 0;
  int64_t sums_floats = 0, thread_sums = 0, thread_pointers = 0, thread_bytes = 0, thread_ranges = 0;

  bool has(size_t input) const { return input < given.size() && given[input]; }
  int64_t groups() const { return s.directions * parts; }
  /// Where a group's items begin, counted over all directions.
  int64_t item(int64_t group) const { return group / parts * s.batch + s.batch * (group % parts) / parts; }
  int64_t group_items(int64_t group) const { return item(group + 1) - item(group); }
  /// A row of what W makes of an input: [panels][gates][lanes].
  int64_t row_floats() const { return panels * s.gates * simd.lanes; }
  /// Gate `gate` of unit `unit` in it.
  int64_t column(int64_t gate, int64_t unit) const {
    return (unit / simd.lanes * s.gates + gate) * simd.lanes + unit % simd.lanes;
  }
  /// The biases of one direction: of a row of inputs, and of the rows of R that a reset gate scales.
  int64_t bias_floats() const { return 2 * row_floats(); }

 private:
  void share(int most_threads);
  void cut();
};

}  // namespace smelt::ops
