// What RNN, GRU and LSTM share: shapes, layouts, directions, sequence lengths, and the projections of the gates.
#pragma once

#include <string>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/pointwise/named_activation.h"

namespace smelt::ops {

/// x [steps, batch, input] (layout 1: [batch, steps, input]), w [directions, gates * hidden, input],
/// r [directions, gates * hidden, hidden], b [directions, 2 * gates * hidden].
struct Recurrent {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  bool reverse = false;      // of direction 0
  bool batch_first = false;  // layout 1
  double clip = 0;           // 0: none

  /// Offsets in elements.
  int64_t x_at(int64_t t, int64_t b) const { return (batch_first ? b * steps + t : t * batch + b) * input; }
  int64_t y_at(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  int64_t state_at(int64_t d, int64_t b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
  Shape y_shape() const {
    return batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
  }
  Shape state_shape() const { return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}; }
  double clipped(double v) const;
};

/// Checks the shapes of X, W, R and the optional B, sequence_lens and initial states against each other.
Recurrent recurrent(const Node& node, int64_t gates, std::span<const TensorDesc> inputs);
Recurrent recurrent(const ComputeContext& c, int64_t gates);

/// The same for DynamicQuantizeLSTM, whose W [directions, input, 4 * hidden] and R [directions, hidden, 4 * hidden] lie
/// transposed; checks their scales and zero points, one for each direction or one for each of its columns.
Recurrent quantized_lstm(const Node& node, std::span<const TensorDesc> inputs);

/// (w - zero) * scale of [directions, k, columns], as [directions, columns, k] in f32; `zero` may be left out.
Tensor dequantized_weights(const Tensor& w, const Tensor& scale, const Tensor& zero, int64_t columns);

inline constexpr int64_t rnn_gates = 1, gru_gates = 3, lstm_gates = 4;
/// Of one direction, where the node names none.
std::vector<std::string> default_activations(int64_t gates);

/// Two for each product and sum with W and R; the gates' functions are not counted.
int64_t recurrent_flops(const BoundNode& b);

/// Sets Y, Y_h and, for LSTM, Y_c.
void set_recurrent_outputs(InferContext& c, const Recurrent& r);

/// sums[g] = bias_w + bias_r + x · w[g] for the `gates * hidden` rows of one direction, without the recurrent part;
/// `bias` is that direction's 2 * gates * hidden values or null.
template <class T> void project_input(const Recurrent& r, const T* x, const T* w, const T* bias, std::vector<double>& sums);
/// h · row, `row` one row of R.
template <class T> double project_state(const Recurrent& r, const std::vector<double>& h, const T* row);

/// Runs `step(direction, x, h)` over every direction, item and step of the sequence, in time order of the direction: it
/// updates h [hidden] in place. Writes Y (zero behind an item's own length) and Y_h.
template <class T, class Begin, class Step, class End>
void for_each_step(ComputeContext& c, const Recurrent& r, Begin&& begin, Step&& step, End&& end) {
  const T* x = c.in(0).data<T>();
  const T* initial = c.has(5) ? c.in(5).data<T>() : nullptr;
  const std::vector<int64_t> lengths = c.has(4) ? c.in(4).to_ints() : std::vector<int64_t>(static_cast<size_t>(r.batch), r.steps);
  T* y = c.wants(0) ? c.outputs[0].data<T>() : nullptr;
  T* last = c.outputs.size() > 1 && c.wants(1) ? c.outputs[1].data<T>() : nullptr;
  if (y) std::fill(y, y + c.outputs[0].size(), T{});
  std::vector<double> h(static_cast<size_t>(r.hidden));
  for (int64_t d = 0; d < r.directions; ++d) {
    const bool backward = r.reverse || d == 1;
    for (int64_t b = 0; b < r.batch; ++b) {
      for (int64_t k = 0; k < r.hidden; ++k)
        h[static_cast<size_t>(k)] = initial ? static_cast<double>(initial[r.state_at(d, b) + k]) : 0;
      begin(d, b);
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = backward ? length - 1 - s : s;
        step(d, x + r.x_at(t, b), h);
        if (y) std::transform(h.begin(), h.end(), y + r.y_at(t, d, b), [](double v) { return static_cast<T>(v); });
      }
      if (last) std::transform(h.begin(), h.end(), last + r.state_at(d, b), [](double v) { return static_cast<T>(v); });
      end(d, b);
    }
  }
}

}  // namespace smelt::ops
