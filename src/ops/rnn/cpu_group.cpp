#include "ops/rnn/cpu_group.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/cpu/parallel.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

/// A thread's share of a group: panels [begin, end) of its sequences.
class Group {
 public:
  /// `scratch`: the number of the thread's sums and pointers that it uses.
  Group(const GroupRun& run, int64_t group, int64_t member, int64_t team, int64_t scratch)
      : k_(run.plan),
        s_(k_.s),
        simd_(k_.simd),
        buffers_(run.buffers),
        memory_(run.memory),
        biases_(run.biases),
        direction_(group / k_.parts),
        items_(k_.group_items(group)),
        active_(items_),
        begin_(k_.panels * member / team),
        end_(k_.panels * (member + 1) / team),
        first_unit_(begin_ * simd_.lanes),
        units_(std::max<int64_t>(0, std::min(s_.hidden, end_ * simd_.lanes) - first_unit_)) {
    const RecurrentPlan& k = k_;
    char* const memory = memory_;
    lengths_ = reinterpret_cast<const int64_t*>(memory + k.order_at);
    order_ = lengths_ + s_.batch + k.item(group) % std::max<int64_t>(1, s_.batch);
    for (size_t i = 0; i < std::size(state_); ++i)
      state_[i] = reinterpret_cast<float*>(memory + k.state_at[i]) + k.item(group) * k.padded;
    char* own = memory + k.threads_at + scratch * (k.thread_sums + k.thread_pointers + k.thread_bytes + k.thread_ranges);
    sums_ = reinterpret_cast<float*>(own);
    inputs_ = reinterpret_cast<const float**>(own += k.thread_sums);
    panel_inputs_ = inputs_ + items_;
    bytes_ = own += k.thread_pointers;
    ranges_ = reinterpret_cast<QuantizedRow*>(own + k.thread_bytes);
    const size_t per_direction = k.functions.size() / static_cast<size_t>(s_.directions);
    const GateActivation* f = k.functions.data() + static_cast<size_t>(direction_) * per_direction;
    gates_.f = f[0];
    if (per_direction > 1) gates_.g = f[1];
    if (per_direction > 2) gates_.h = f[2];
    gates_.clip = s_.clip > 0 ? static_cast<float>(s_.clip) : std::numeric_limits<float>::infinity();
    gates_.coupled = k.coupled;
    gates_.state_stride = k.padded;
    gates_.peephole_stride = k.padded;
  }

  /// Steps that the longest sequence has.
  int64_t steps() const { return items_ > 0 ? lengths_[order_[0]] : 0; }

  void begin_states() {
    for (int64_t i = 0; i < items_; ++i) {
      first_state(5, order_[i], state_[0] + i * k_.padded);
      if (s_.gates == lstm_gates) first_state(6, order_[i], state_[cell_state] + i * k_.padded);
    }
  }

  /// Of a GRU whose reset gate comes first: the gates, which the candidate of finish() needs of all units. Begins a step.
  void begin(int64_t step) {
    while (lengths_[order_[active_ - 1]] <= step) --active_;
    point_to_inputs(step, active_);
    if (k_.resets_first)
      multiply(k_.r, k_.packed_at[1], simd_.gru_gates, before(step), before(step), after(step), active_, step % 2 != 0);
  }
  /// The states after the step, which need the states before it of all units.
  void finish(int64_t step) {
    if (k_.resets_first) {
      multiply(k_.candidate, k_.packed_at[2], simd_.gru_candidate, state_[scaled_state], before(step), after(step), active_,
               step % 2 != 0);
    } else {
      multiply(k_.r, k_.packed_at[1],
               s_.gates == rnn_gates   ? simd_.rnn
               : s_.gates == gru_gates ? simd_.gru_linear
                                       : simd_.lstm,
               before(step), before(step), after(step), active_, step % 2 != 0);
    }
    write_step(step, active_, after(step));
  }

  /// The last states; zeros behind each item's own length.
  void end_states() const {
    if (units_ == 0) return;
    for (int64_t i = 0; i < items_; ++i) {
      const int64_t b = order_[i], length = lengths_[b];
      if (wants(0)) {
        for (int64_t t = length; t < s_.steps; ++t) std::fill_n(out(0, s_.y_at(t, direction_, b)), units_ * k_.element, char{0});
      }
      const int64_t row = i * k_.padded + first_unit_, at = s_.state_at(direction_, b);
      if (wants(1)) simd_.store(k_.type, state_[length % 2] + row, units_, out(1, at));
      if (wants(2)) simd_.store(k_.type, state_[cell_state] + row, units_, out(2, at));
    }
  }

 private:
  static constexpr size_t cell_state = 2, update_state = 2, scaled_state = 3;

  float* before(int64_t step) const { return state_[step % 2]; }
  float* after(int64_t step) const { return state_[(step + 1) % 2]; }
  bool backward() const { return s_.reverse || direction_ == 1; }
  int64_t time(int64_t step, int64_t b) const { return backward() ? lengths_[b] - 1 - step : step; }
  bool wants(size_t output) const { return output < buffers_.outputs.size() && buffers_.outputs[output]; }
  char* out(size_t output, int64_t at) const {
    return static_cast<char*>(buffers_.outputs[output]) + (at + first_unit_) * k_.element;
  }

  void first_state(size_t input, int64_t b, float* to) {
    const int64_t panel_units = (end_ - begin_) * simd_.lanes;
    std::fill_n(to + first_unit_, panel_units, 0.0f);
    if (!k_.has(input) || units_ == 0) return;
    const int64_t at = s_.state_at(direction_, b) + first_unit_;
    simd_.load(k_.type, static_cast<const char*>(buffers_.inputs[input]) + at * k_.element, units_, to + first_unit_);
  }

  void point_to_inputs(int64_t step, int64_t active) {
    const int64_t row = k_.row_floats();
    const float* all = reinterpret_cast<const float*>(memory_ + k_.inputs_at) + direction_ * s_.steps * s_.batch * row;
    for (int64_t i = 0; i < active; ++i) {
      const int64_t b = order_[i], t = time(step, b);
      inputs_[i] = all + (s_.batch_first ? b * s_.steps + t : t * s_.batch + b) * row;
    }
  }

  /// weights · from, then the gates, a few panels at a time. Panels that a step read last are still in the cache when the next one
  /// begins with them.
  void multiply(const RecurrentWeights& weights, int64_t packed_at, void (*gates)(const GateStep&), const float* from,
                const float* before, float* after, int64_t active, bool back) {
    RecurrentWeights::Rows rows{from, k_.padded, active};
    if (weights.bytes()) {
      quantize(from, active);
      rows = {bytes_, byte_row(s_.hidden), active, ranges_};
    }
    const int64_t step = weights.gates() * simd_.lanes, input_step = s_.gates * simd_.lanes;
    int64_t most = std::max<int64_t>(1, k_.sums_floats / (active * step));
    if (k_.turn_panels > 0) most = std::min(most, k_.turn_panels);
    const float* start =
        s_.gates == gru_gates && !k_.resets_first ? biases_ + direction_ * k_.bias_floats() + k_.row_floats() : nullptr;
    GateStep g = gates_;
    g.rows = active;
    const int64_t blocks = (end_ - begin_ + most - 1) / most;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t panel = begin_ + (back ? blocks - 1 - block : block) * most;
      g.panels = std::min(most, end_ - panel);
      g.sums_stride = g.panels * step;
      weights.multiply(memory_ + packed_at, direction_, panel, panel + g.panels, rows, start, sums_, g.sums_stride);
      const int64_t unit = panel * simd_.lanes;
      for (int64_t i = 0; i < active; ++i) panel_inputs_[i] = inputs_[i] + panel * input_step;
      g.inputs = panel_inputs_;
      g.sums = sums_;
      g.before = before + unit;
      g.after = after + unit;
      g.cell = state_[cell_state] + unit;
      g.update = state_[update_state] + unit;
      g.scaled = state_[scaled_state] + unit;
      g.peepholes =
          k_.has(7) ? reinterpret_cast<const float*>(memory_ + k_.peepholes_at) + direction_ * 3 * k_.padded + unit : nullptr;
      gates(g);
    }
  }

  /// Every member needs all of the state, so each quantises it for itself.
  void quantize(const float* from, int64_t active) {
    for (int64_t i = 0; i < active; ++i) {
      const float* row = from + i * k_.padded;
      char* to = bytes_ + i * byte_row(s_.hidden);
      float low = 0, high = 0;
      byte_products().range(row, s_.hidden, &low, &high);
      ranges_[i] = quantized_range(low, high);
      ranges_[i].sum = byte_products().quantize(row, s_.hidden, ranges_[i].scale, ranges_[i].zero, to);
    }
  }

  void write_step(int64_t step, int64_t active, const float* after) const {
    if (!wants(0) || units_ == 0) return;
    for (int64_t i = 0; i < active; ++i) {
      const int64_t b = order_[i];
      simd_.store(k_.type, after + i * k_.padded + first_unit_, units_, out(0, s_.y_at(time(step, b), direction_, b)));
    }
  }

  const RecurrentPlan& k_;
  const Recurrent& s_;
  const RecurrentSimd& simd_;
  const Buffers& buffers_;
  char* memory_;
  const float* biases_;  // of all directions
  int64_t direction_, items_;
  int64_t active_;  // items whose sequences go on
  int64_t begin_, end_, first_unit_, units_;
  const int64_t *lengths_, *order_;
  float* state_[4];  // the state before and after a step, by turns; LSTM: the cell; GRU: the update gate, the reset state
  float* sums_;
  const float **inputs_, **panel_inputs_;  // of each item: what W makes of its input, from the first panel and from a later one
  char* bytes_;
  QuantizedRow* ranges_;
  GateStep gates_{};
};

}  // namespace

QuantizedRow quantized_range(float low, float high) {
  QuantizedRow q;
  q.scale = low == high ? 1.0f : (high - low) / 255;
  q.zero = dynamic_zero_point(low, q.scale);
  return q;
}

void advance_group(const GroupRun& run, int64_t group, int thread) {
  Group g(run, group, 0, 1, thread);
  g.begin_states();
  const int64_t steps = g.steps();
  for (int64_t step = 0; step < steps; ++step) {
    g.begin(step);
    g.finish(step);
  }
  g.end_states();
}

void advance_shared(const GroupRun& run, int64_t first, int64_t groups) {
  const int64_t team = run.plan.team, count = groups * team;
  std::optional<Group> shares[RecurrentPlan::most_shares];
  int64_t steps = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Group& share = shares[i].emplace(run, first + i / team, i % team, team, i);
    steps = std::max(steps, share.steps());
  }
  const auto each = [&](auto&& f) { parallel_dynamic(static_cast<int>(count), count, [&](int64_t i, int) { f(*shares[i]); }); };
  each([](Group& g) { g.begin_states(); });
  for (int64_t step = 0; step < steps; ++step) {
    if (run.plan.resets_first) {
      each([&](Group& g) {
        if (step < g.steps()) g.begin(step);
      });
    }
    each([&](Group& g) {
      if (step >= g.steps()) return;
      if (!run.plan.resets_first) g.begin(step);
      g.finish(step);
    });
  }
  each([](Group& g) { g.end_states(); });
}

}  // namespace smelt::ops
