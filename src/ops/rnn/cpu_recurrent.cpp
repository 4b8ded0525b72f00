// RNN, GRU, LSTM and DynamicQuantizeLSTM on the CPU: what W makes of all steps' inputs is one product; then every step multiplies the
// state with R, whose panels hold all gates of a few units, and applies the gates to the sums while they are in the L1 cache.
//
// Sequences that do not wait for each other (the directions, parts of the batch) are groups. A thread runs a whole group without a
// barrier; where a step is long enough, several threads share a group's units and meet after each step.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/rnn/cpu_weights.h"
#include "ops/rnn/offer.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

constexpr std::string_view recurrent_functions[] = {"Sigmoid",         "Tanh",       "Relu",        "Affine", "LeakyRelu",
                                                    "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",    "Softsign",
                                                    "Softplus",        "Clip"};

GateActivation gate_activation(const Activation& a) {
  const auto* at = std::ranges::find(recurrent_functions, a.name);
  if (at == std::end(recurrent_functions)) fail_unsupported("activation '{}' of a recurrent operator", a.name);
  return {static_cast<GateFunction>(at - recurrent_functions), static_cast<float>(a.alpha), static_cast<float>(a.beta)};
}

bool is_quantized(const Node& n) { return n.is("DynamicQuantizeLSTM", microsoft_domain); }

Recurrent extents(const BoundNode& b) {
  const Node& n = *b.node;
  std::vector<TensorDesc> in(b.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (b.has(i)) in[i] = {b.inputs[i].type, b.inputs[i].shape, true, nullptr};
  }
  if (is_quantized(n)) return quantized_lstm(n, in);
  return recurrent(n, n.op == "RNN" ? rnn_gates : n.op == "GRU" ? gru_gates : lstm_gates, in);
}

/// Threads that share a group meet here after each step. A step takes microseconds, so they spin before they let others run.
class alignas(64) Meeting {
 public:
  void wait(int members) {
    if (members == 1) return;
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    constexpr int spins = 4000;
    for (int i = 0; round_.load(std::memory_order_acquire) == round; ++i) {
      if (i < spins)
        _mm_pause();
      else
        std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_{0}, round_{0};
};

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

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const BoundNode& b, int threads)
      : s_(extents(b)),
        simd_(recurrent_simd()),
        quantized_(is_quantized(*b.node)),
        type_(required_float_kind(b.inputs[0].type)),
        element_(smelt::bytes(b.inputs[0].type, 1)),
        converted_(b.inputs[0], threads),
        panels_((s_.hidden + simd_.lanes - 1) / simd_.lanes),
        padded_(panels_ * simd_.lanes),
        resets_first_(s_.gates == gru_gates && b.node->get_int("linear_before_reset", 0) == 0),
        coupled_(b.node->get_int("input_forget", 0) != 0) {
    const int64_t g = s_.gates, h = s_.hidden, d = s_.directions;
    w_ = RecurrentWeights(b, {1, quantized_ ? size_t{8} : 0, g, 0, g, h, s_.input, d});
    const int64_t first = resets_first_ ? 2 : g;
    r_ = RecurrentWeights(b, {2, quantized_ ? size_t{10} : 0, g, 0, first, h, h, d});
    if (resets_first_) candidate_ = RecurrentWeights(b, {2, 0, g, 2, 1, h, h, d});
    for (size_t i = 0; i < b.inputs.size(); ++i) given_.push_back(b.has(i));
    if (has(4)) length_type_ = b.inputs[4].type;
    for (const Activation& a : recurrent_activations(*b.node, default_activations(g), d))
      functions_.push_back(gate_activation(a));
    for (size_t i = 0; i < 3; ++i) inputs_read_[i] = i == 0 || !(i == 1 ? w_ : r_).constant();
    share(threads);
    cut();
    if (!has(3) || b.constant(3)) {
      biases_.resize(static_cast<size_t>(d * bias_floats()));
      fill_biases(has(3) ? b.constant(3)->raw() : nullptr, biases_.data());
    }
  }

  int64_t workspace() const override { return memory_.bytes(); }
  bool reads(size_t i) const override { return i >= 3 || inputs_read_[i]; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const int64_t longest = order_items(b, memory);
    w_.pack(b, memory + packed_at_[0], threads_);
    r_.pack(b, memory + packed_at_[1], threads_);
    if (resets_first_) candidate_.pack(b, memory + packed_at_[2], threads_);
    if (biases_.empty()) fill_biases(b.inputs[3], reinterpret_cast<float*>(memory + biases_at_));
    if (has(7)) fill_peepholes(b.inputs[7], reinterpret_cast<float*>(memory + peepholes_at_));
    if (longest > 0 && s_.hidden > 0) project(b, memory, longest);
    advance_all(b, memory);
  }

 private:
  bool has(size_t i) const { return i < given_.size() && given_[i]; }
  int64_t row_floats() const { return panels_ * s_.gates * simd_.lanes; }
  /// The biases of one direction: of a row of inputs, and of the rows of R that a reset gate scales.
  int64_t bias_floats() const { return 2 * row_floats(); }
  int64_t group_items(int64_t group) const { return item(group + 1) - item(group); }
  /// Where a group's items begin, counted over all directions.
  int64_t item(int64_t group) const {
    const int64_t d = group / parts_, part = group % parts_;
    return d * s_.batch + s_.batch * part / parts_;
  }

  /// How many threads there are work for, and how they share it.
  void share(int threads) {
    constexpr int64_t products_a_byte = 16;  // of useful_threads' unit: a core takes so many in the time of one
    const int64_t step = s_.gates * s_.hidden * s_.hidden;
    const int64_t all = s_.steps * s_.batch * s_.directions * (step + s_.gates * s_.hidden * s_.input);
    threads_ = useful_threads(threads, all / products_a_byte);
    // A part of the batch has at least a tile's rows.
    constexpr int64_t fewest_items = 4;
    const int64_t wanted = (threads_ + s_.directions - 1) / s_.directions;
    parts_ = std::clamp<int64_t>(s_.batch / fewest_items, 1, std::max<int64_t>(1, wanted));
    const int64_t groups = s_.directions * parts_;
    // Meeting costs about a microsecond: a thread gets some five of each step.
    constexpr int64_t smallest_share = 1 << 17;
    const int64_t items = (s_.batch + parts_ - 1) / parts_;
    team_ = static_cast<int>(
        std::clamp<int64_t>(std::min(threads_ / groups, items * step / smallest_share), 1, std::max<int64_t>(1, panels_)));
    meetings_ = std::make_unique<Meeting[]>(static_cast<size_t>(groups));
  }

  void cut() {
    const int64_t items = s_.directions * s_.batch, rows = s_.steps * s_.batch, group = (s_.batch + parts_ - 1) / parts_;
    packed_at_[0] = memory_.take(w_.workspace());
    packed_at_[1] = memory_.take(r_.workspace());
    packed_at_[2] = memory_.take(resets_first_ ? candidate_.workspace() : 0);
    order_at_ = memory_.take(s_.batch * 2 * 8);
    biases_at_ = memory_.take(s_.directions * bias_floats() * 4);
    peepholes_at_ = memory_.take(has(7) ? s_.directions * 3 * padded_ * 4 : 0);
    x_at_ = memory_.take(type_ == FloatKind::f32 ? 0 : rows * s_.input * 4);
    x_bytes_at_ = memory_.take(quantized_ ? rows * even(s_.input) * 2 : 0);
    x_sums_at_ = memory_.take(quantized_ ? rows * 4 : 0);
    inputs_at_ = memory_.take(s_.directions * rows * row_floats() * 4);
    for (int64_t& at : state_at_) at = memory_.take(items * padded_ * 4);
    sums_floats_ = std::max<int64_t>(4096, group * r_.gates() * simd_.lanes);
    thread_sums_ = aligned(sums_floats_ * 4);
    thread_pointers_ = aligned(group * 8);
    thread_bytes_ = quantized_ ? aligned(group * even(s_.hidden) * 2) : 0;
    thread_ranges_ = quantized_ ? aligned(group * static_cast<int64_t>(sizeof(QuantizedRow))) : 0;
    threads_at_ = memory_.take(threads_ * (thread_sums_ + thread_pointers_ + thread_bytes_ + thread_ranges_));
  }
  static int64_t even(int64_t n) { return (n + 1) / 2 * 2; }

  /// Lengths of all items, then for each part of the batch its items from the longest to the shortest. Returns the longest.
  int64_t order_items(const Buffers& b, char* memory) const {
    int64_t* lengths = reinterpret_cast<int64_t*>(memory + order_at_);
    int64_t* order = lengths + s_.batch;
    std::iota(order, order + s_.batch, int64_t{0});
    std::fill_n(lengths, s_.batch, s_.steps);
    if (!has(4)) return s_.batch > 0 ? s_.steps : 0;
    int64_t longest = 0;
    for (int64_t i = 0; i < s_.batch; ++i) {
      lengths[i] =
          length_type_ == DType::i64 ? static_cast<const int64_t*>(b.inputs[4])[i] : static_cast<const int32_t*>(b.inputs[4])[i];
      if (lengths[i] < 0 || lengths[i] > s_.steps) fail("sequence_lens has {}, expected 0 to {}", lengths[i], s_.steps);
      longest = std::max(longest, lengths[i]);
    }
    for (int64_t part = 0; part < parts_; ++part) {
      std::sort(order + item(part), order + item(part + 1),
                [&](int64_t i, int64_t j) { return lengths[i] != lengths[j] ? lengths[i] > lengths[j] : i < j; });
    }
    return longest;
  }

  /// Gate `gate` of unit `unit` in a row of sums.
  int64_t column(int64_t gate, int64_t unit) const {
    return (unit / simd_.lanes * s_.gates + gate) * simd_.lanes + unit % simd_.lanes;
  }

  void fill_biases(const void* bias, float* to) const {
    std::fill_n(to, s_.directions * bias_floats(), 0.0f);
    if (!bias) return;
    const bool apart = s_.gates == gru_gates && !resets_first_;
    for (int64_t d = 0; d < s_.directions; ++d) {
      float* sums = to + d * bias_floats();
      for (int64_t half = 0; half < 2; ++half) {  // W's, R's
        for (int64_t g = 0; g < s_.gates; ++g) {
          float* row = sums + (apart && half == 1 && g == 2 ? row_floats() : 0);
          const char* from = static_cast<const char*>(bias) + ((d * 2 + half) * s_.gates + g) * s_.hidden * element_;
          for (int64_t u = 0; u < s_.hidden; u += simd_.lanes) {
            float v[16];
            const int64_t n = std::min(simd_.lanes, s_.hidden - u);
            simd_.load(type_, from + u * element_, n, v);
            float* here = row + column(g, u);
            for (int64_t i = 0; i < n; ++i) here[i] += v[i];
          }
        }
      }
    }
  }

  void fill_peepholes(const void* from, float* to) const {
    std::fill_n(to, s_.directions * 3 * padded_, 0.0f);
    for (int64_t i = 0; i < s_.directions * 3; ++i)
      simd_.load(type_, static_cast<const char*>(from) + i * s_.hidden * element_, s_.hidden, to + i * padded_);
  }

  const float* biases(const char* memory, int64_t direction) const {
    return (biases_.empty() ? reinterpret_cast<const float*>(memory + biases_at_) : biases_.data()) + direction * bias_floats();
  }

  /// What W makes of every step's input, with the biases.
  void project(const Buffers& b, char* memory, int64_t longest) const {
    const int64_t rows = s_.steps * s_.batch;
    const float* x = static_cast<const float*>(b.inputs[0]);
    if (type_ != FloatKind::f32) {
      float* converted = reinterpret_cast<float*>(memory + x_at_);
      converted_.run(converted, b.inputs[0]);
      x = converted;
    }
    QuantizedRow range;
    RecurrentWeights::Rows from{x, s_.input, rows};
    if (quantized_) {
      range = quantize_inputs(x, memory, longest);
      from = {memory + x_bytes_at_, even(s_.input), rows, &range, reinterpret_cast<const int32_t*>(memory + x_sums_at_)};
    }
    float* sums = reinterpret_cast<float*>(memory + inputs_at_);
    const int64_t pieces = threads_ == 1 ? 1 : std::min<int64_t>(panels_, int64_t{8} * threads_);
    parallel_dynamic(threads_, s_.directions * pieces, [&](int64_t task, int) {
      const int64_t d = task / pieces, piece = task % pieces;
      const int64_t begin = panels_ * piece / pieces, end = panels_ * (piece + 1) / pieces;
      float* to = sums + d * rows * row_floats() + begin * s_.gates * simd_.lanes;
      w_.multiply(memory + packed_at_[0], d, begin, end, from, biases(memory, d), to, row_floats());
    });
  }

  QuantizedRow range_of(float low, float high) const {
    QuantizedRow q;
    q.scale = low == high ? 1.0f : (high - low) / 255;
    q.zero = static_cast<int32_t>(std::clamp(std::nearbyint(-low / q.scale), 0.0f, 255.0f));
    return q;
  }

  /// One range for the inputs of all steps that an item takes.
  QuantizedRow quantize_inputs(const float* x, char* memory, int64_t longest) const {
    float low = 0, high = 0;
    if (s_.batch_first && longest < s_.steps) {
      for (int64_t i = 0; i < s_.batch; ++i) simd_.range(x + s_.x_at(0, i), longest * s_.input, &low, &high);
    } else {
      simd_.range(x, longest * s_.batch * s_.input, &low, &high);
    }
    const QuantizedRow q = range_of(low, high);
    int16_t* to = reinterpret_cast<int16_t*>(memory + x_bytes_at_);
    int32_t* sums = reinterpret_cast<int32_t*>(memory + x_sums_at_);
    const int64_t stride = even(s_.input), rows = s_.steps * s_.batch;
    parallel(useful_threads(threads_, rows * s_.input), rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        to[i * stride + stride - 1] = 0;
        sums[i] = simd_.quantize(x + i * s_.input, s_.input, q.scale, q.zero, to + i * stride);
      }
    });
    return q;
  }

  void advance_all(const Buffers& b, char* memory) const {
    const int64_t groups = s_.directions * parts_;
    if (threads_ == 1) {
      for (int64_t g = 0; g < groups; ++g) Group(*this, b, memory, g, 0, 1, 0).run();
      return;
    }
#pragma omp parallel
    {
      const int all = std::min(threads_, omp_get_num_threads()), t = omp_get_thread_num();
      if (team_ > 1 && groups * team_ <= all) {
        if (t < groups * team_) Group(*this, b, memory, t / team_, t % team_, team_, t).run();
      } else if (t < all) {
        for (int64_t g = t; g < groups; g += all) Group(*this, b, memory, g, 0, 1, t).run();
      }
    }
  }

  /// A thread's share of a group: panels [begin, end) of its sequences.
  class Group {
   public:
    Group(const RecurrentKernel& k, const Buffers& b, char* memory, int64_t group, int member, int team, int thread)
        : k_(k),
          s_(k.s_),
          simd_(k.simd_),
          buffers_(b),
          memory_(memory),
          direction_(group / k.parts_),
          items_(k.group_items(group)),
          team_(team),
          meeting_(k.meetings_[static_cast<size_t>(group)]),
          begin_(k.panels_ * member / team),
          end_(k.panels_ * (member + 1) / team),
          first_unit_(begin_ * k.simd_.lanes),
          units_(std::max<int64_t>(0, std::min(k.s_.hidden, end_ * k.simd_.lanes) - first_unit_)) {
      lengths_ = reinterpret_cast<const int64_t*>(memory + k.order_at_);
      order_ = lengths_ + s_.batch + k.item(group) % std::max<int64_t>(1, s_.batch);
      for (size_t i = 0; i < std::size(state_); ++i)
        state_[i] = reinterpret_cast<float*>(memory + k.state_at_[i]) + k.item(group) * k.padded_;
      char* own = memory + k.threads_at_ + thread * (k.thread_sums_ + k.thread_pointers_ + k.thread_bytes_ + k.thread_ranges_);
      sums_ = reinterpret_cast<float*>(own);
      inputs_ = reinterpret_cast<const float**>(own += k.thread_sums_);
      bytes_ = reinterpret_cast<int16_t*>(own += k.thread_pointers_);
      ranges_ = reinterpret_cast<QuantizedRow*>(own + k.thread_bytes_);
      const size_t per_direction = k.functions_.size() / static_cast<size_t>(s_.directions);
      const GateActivation* f = k.functions_.data() + static_cast<size_t>(direction_) * per_direction;
      gates_.f = f[0];
      if (per_direction > 1) gates_.g = f[1];
      if (per_direction > 2) gates_.h = f[2];
      gates_.clip = s_.clip > 0 ? static_cast<float>(s_.clip) : std::numeric_limits<float>::infinity();
      gates_.coupled = k.coupled_;
      gates_.state_stride = k.padded_;
      gates_.peephole_stride = k.padded_;
    }

    void run() {
      begin_states();
      meeting_.wait(team_);
      int64_t active = items_;
      const int64_t longest = items_ > 0 ? lengths_[order_[0]] : 0;
      for (int64_t step = 0; step < longest; ++step) {
        while (lengths_[order_[active - 1]] <= step) --active;
        point_to_inputs(step, active);
        float *before = state_[step % 2], *after = state_[(step + 1) % 2];
        if (k_.resets_first_) {
          multiply(k_.r_, k_.packed_at_[1], simd_.gru_gates, before, before, after, active);
          meeting_.wait(team_);
          multiply(k_.candidate_, k_.packed_at_[2], simd_.gru_candidate, state_[scaled_state], before, after, active);
        } else {
          multiply(k_.r_, k_.packed_at_[1],
                   s_.gates == rnn_gates   ? simd_.rnn
                   : s_.gates == gru_gates ? simd_.gru_linear
                                           : simd_.lstm,
                   before, before, after, active);
        }
        write_step(step, active, after);
        meeting_.wait(team_);
      }
      end_states();
    }

   private:
    static constexpr size_t cell_state = 2, update_state = 2, scaled_state = 3;

    bool backward() const { return s_.reverse || direction_ == 1; }
    int64_t time(int64_t step, int64_t b) const { return backward() ? lengths_[b] - 1 - step : step; }
    bool wants(size_t output) const { return output < buffers_.outputs.size() && buffers_.outputs[output]; }
    char* out(size_t output, int64_t at) const {
      return static_cast<char*>(buffers_.outputs[output]) + (at + first_unit_) * k_.element_;
    }

    void begin_states() {
      for (int64_t i = 0; i < items_; ++i) {
        first_state(5, order_[i], state_[0] + i * k_.padded_);
        if (s_.gates == lstm_gates) first_state(6, order_[i], state_[cell_state] + i * k_.padded_);
      }
    }
    void first_state(size_t input, int64_t b, float* to) {
      const int64_t panel_units = (end_ - begin_) * simd_.lanes;
      std::fill_n(to + first_unit_, panel_units, 0.0f);
      if (!k_.has(input) || units_ == 0) return;
      const int64_t at = s_.state_at(direction_, b) + first_unit_;
      simd_.load(k_.type_, static_cast<const char*>(buffers_.inputs[input]) + at * k_.element_, units_, to + first_unit_);
    }

    void point_to_inputs(int64_t step, int64_t active) {
      const int64_t row = k_.row_floats();
      const float* all = reinterpret_cast<const float*>(memory_ + k_.inputs_at_) + direction_ * s_.steps * s_.batch * row;
      for (int64_t i = 0; i < active; ++i) {
        const int64_t b = order_[i], t = time(step, b);
        inputs_[i] = all + (s_.batch_first ? b * s_.steps + t : t * s_.batch + b) * row + begin_ * s_.gates * simd_.lanes;
      }
    }

    /// weights · from, then the gates, a few panels at a time.
    void multiply(const RecurrentWeights& weights, int64_t packed_at, void (*gates)(const GateStep&), const float* from,
                  const float* before, float* after, int64_t active) {
      RecurrentWeights::Rows rows{from, k_.padded_, active};
      if (weights.bytes()) {
        quantize(from, active);
        rows = {bytes_, even(s_.hidden), active, ranges_};
      }
      const int64_t step = weights.gates() * simd_.lanes, input_step = s_.gates * simd_.lanes;
      const int64_t most = std::max<int64_t>(1, k_.sums_floats_ / (active * step));
      const float* start =
          s_.gates == gru_gates && !k_.resets_first_ ? k_.biases(memory_, direction_) + k_.row_floats() : nullptr;
      GateStep g = gates_;
      g.rows = active;
      for (int64_t panel = begin_; panel < end_; panel += most) {
        g.panels = std::min(most, end_ - panel);
        g.sums_stride = g.panels * step;
        weights.multiply(memory_ + packed_at, direction_, panel, panel + g.panels, rows, start, sums_, g.sums_stride);
        if (panel > begin_) {
          for (int64_t i = 0; i < active; ++i) inputs_[i] += most * input_step;
        }
        const int64_t unit = panel * simd_.lanes;
        g.inputs = inputs_;
        g.sums = sums_;
        g.before = before + unit;
        g.after = after + unit;
        g.cell = state_[cell_state] + unit;
        g.update = state_[update_state] + unit;
        g.scaled = state_[scaled_state] + unit;
        g.peepholes =
            k_.has(7) ? reinterpret_cast<const float*>(memory_ + k_.peepholes_at_) + direction_ * 3 * k_.padded_ + unit : nullptr;
        gates(g);
      }
      const int64_t passed = (end_ - begin_ - 1) / most * most * input_step;
      if (end_ > begin_) {
        for (int64_t i = 0; i < active; ++i) inputs_[i] -= passed;
      }
    }

    /// Every member needs all of the state, so each quantises it for itself.
    void quantize(const float* from, int64_t active) {
      for (int64_t i = 0; i < active; ++i) {
        const float* row = from + i * k_.padded_;
        int16_t* to = bytes_ + i * even(s_.hidden);
        float low = 0, high = 0;
        simd_.range(row, s_.hidden, &low, &high);
        ranges_[i] = k_.range_of(low, high);
        to[even(s_.hidden) - 1] = 0;
        ranges_[i].sum = simd_.quantize(row, s_.hidden, ranges_[i].scale, ranges_[i].zero, to);
      }
    }

    void write_step(int64_t step, int64_t active, const float* after) const {
      if (!wants(0) || units_ == 0) return;
      for (int64_t i = 0; i < active; ++i) {
        const int64_t b = order_[i];
        simd_.store(k_.type_, after + i * k_.padded_ + first_unit_, units_, out(0, s_.y_at(time(step, b), direction_, b)));
      }
    }

    /// The last states; zeros behind each item's own length.
    void end_states() const {
      if (units_ == 0) return;
      for (int64_t i = 0; i < items_; ++i) {
        const int64_t b = order_[i], length = lengths_[b];
        if (wants(0)) {
          for (int64_t t = length; t < s_.steps; ++t)
            std::fill_n(out(0, s_.y_at(t, direction_, b)), units_ * k_.element_, char{0});
        }
        const int64_t row = i * k_.padded_ + first_unit_, at = s_.state_at(direction_, b);
        if (wants(1)) simd_.store(k_.type_, state_[length % 2] + row, units_, out(1, at));
        if (wants(2)) simd_.store(k_.type_, state_[cell_state] + row, units_, out(2, at));
      }
    }

    const RecurrentKernel& k_;
    const Recurrent& s_;
    const RecurrentSimd& simd_;
    const Buffers& buffers_;
    char* memory_;
    int64_t direction_, items_;
    int team_;
    Meeting& meeting_;
    int64_t begin_, end_, first_unit_, units_;
    const int64_t *lengths_, *order_;
    float* state_[4];  // the state before and after a step, by turns; LSTM: the cell; GRU: the update gate, the reset state
    float* sums_;
    const float** inputs_;
    int16_t* bytes_;
    QuantizedRow* ranges_;
    GateStep gates_{};
  };

  Recurrent s_;
  const RecurrentSimd& simd_;
  bool quantized_;
  FloatKind type_;
  int64_t element_;  // bytes
  ConvertToF32 converted_;
  int64_t panels_, padded_;  // of hidden units
  bool resets_first_, coupled_;
  RecurrentWeights w_, r_, candidate_;
  std::vector<bool> given_;
  bool inputs_read_[3] = {true, true, true};
  DType length_type_ = DType::i32;
  std::vector<GateActivation> functions_;  // of each direction
  std::vector<float> biases_;              // empty where they are known in a run only
  int threads_ = 1, team_ = 1;             // team_: threads that share a group
  int64_t parts_ = 1;                      // of the batch
  std::unique_ptr<Meeting[]> meetings_;
  Cutter memory_;
  int64_t packed_at_[3] = {}, order_at_ = 0, biases_at_ = 0, peepholes_at_ = 0, x_at_ = 0, x_bytes_at_ = 0, x_sums_at_ = 0;
  int64_t inputs_at_ = 0, state_at_[4] = {}, threads_at_ = 0;
  int64_t sums_floats_ = 0, thread_sums_ = 0, thread_pointers_ = 0, thread_bytes_ = 0, thread_ranges_ = 0;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (!float_kind(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(type));
  if (is_quantized(*b.node)) {
    const Shape &w = b.inputs[1].shape, &r = b.inputs[2].shape;
    // Products of bytes are at most 255 · 128 each.
    constexpr int64_t most = (int64_t{1} << 31) / (255 * 128 * 2);
    if (type != DType::f32) return refuse(Reason::wrong_type, "its type is {}; expected f32", name(type));
    if (std::max(w[1], r[1]) > most)
      return refuse(Reason::too_large, "a row of {}; 32-bit sums hold {}", std::max(w[1], r[1]), most);
    for (size_t i : {size_t{1}, size_t{2}}) {
      if (b.inputs[i].type != DType::u8 && b.inputs[i].type != DType::i8)
        return refuse(Reason::wrong_type, "weights of {}; expected u8 or i8", name(b.inputs[i].type));
    }
  }
  return rejects_layouts(b);
}

}  // namespace

void offer_recurrent_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  // One core takes some 25 products in a nanosecond where rows share W, and reads R at 12 GB/s to 60 GB/s in every step.
  const double products = static_cast<double>(recurrent_flops(b)) / 2;
  const double steps = static_cast<double>(b.inputs[0].shape[b.node->get_int("layout", 0) != 0 ? 1 : 0]);
  offer.candidates.push_back(
      {"cpu", "", 1 + steps + products / 15e3 / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<RecurrentKernel>(bound, threads);
       }});
}

}  // namespace smelt::ops
