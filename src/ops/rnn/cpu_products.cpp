// RNN, GRU and LSTM of f64 by products of matrices: what W makes of the inputs of all steps in one, what R makes of the states of a
// batch in one a step, then the gates, unit by unit.
#include <algorithm>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/wide/gemm.h"
#include "ops/rnn/offer.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

int64_t gates_of(const Node& n) { return n.op == "LSTM" ? lstm_gates : n.op == "GRU" ? gru_gates : rnn_gates; }

std::vector<TensorDesc> descriptions(const std::vector<BoundTensor>& tensors) {
  std::vector<TensorDesc> out(tensors.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (tensors[i].type != DType::undefined) out[i] = {tensors[i].type, tensors[i].shape, true, nullptr};
  return out;
}

enum RecurrentInput : size_t { of_x, of_w, of_r, of_bias, of_lengths, of_state, of_cell, of_peephole };

class RecurrentProducts final : public Kernel {
 public:
  RecurrentProducts(const BoundNode& b, int threads)
      : s_(recurrent(*b.node, gates_of(*b.node), descriptions(b.inputs))),
        functions_(recurrent_activations(*b.node, default_activations(s_.gates), s_.directions)),
        coupled_(b.node->get_int("input_forget", 0) != 0),
        linear_first_(b.node->get_int("linear_before_reset", 0) != 0),
        wide_lengths_(b.has(of_lengths) && b.inputs[of_lengths].type == DType::i64),
        columns_(s_.gates * s_.hidden),
        unit_threads_(useful_threads(threads, 64 * s_.batch * columns_)),
        of_inputs_(wide::Type::f64, s_.steps * s_.batch, columns_, s_.input, threads),
        of_states_(wide::Type::f64, s_.batch, resets_first() ? 2 * s_.hidden : columns_, s_.hidden, threads),
        of_candidates_(wide::Type::f64, s_.batch, s_.hidden, s_.hidden, threads) {}

  int64_t workspace() const override {
    return aligned(s_.steps * s_.batch * columns_ * 8) + aligned(s_.batch * columns_ * 8) + 4 * units_bytes() +
           std::max({of_inputs_.workspace(), of_states_.workspace(), of_candidates_.workspace()});
  }

  void run(const Buffers& b) override {
    const std::vector<int64_t> lengths = lengths_of(b);
    Memory m = cut(static_cast<char*>(b.workspace));
    if (double* y = output(b, 0)) std::fill_n(y, s_.steps * s_.directions * s_.batch * s_.hidden, 0.0);
    for (int64_t d = 0; d < s_.directions; ++d) run_direction(b, m, d, lengths);
  }

 private:
  struct Memory {
    double *inputs, *states, *h, *cell, *update, *scaled;
    void* product;
  };
  int64_t units_bytes() const { return aligned(s_.batch * s_.hidden * 8); }
  bool resets_first() const { return s_.gates == gru_gates && !linear_first_; }

  Memory cut(char* memory) const {
    const auto take = [&](int64_t bytes) {
      auto* at = reinterpret_cast<double*>(memory);
      memory += aligned(bytes);
      return at;
    };
    Memory m{};
    m.inputs = take(s_.steps * s_.batch * columns_ * 8), m.states = take(s_.batch * columns_ * 8);
    for (double** of : {&m.h, &m.cell, &m.update, &m.scaled}) *of = take(units_bytes());
    m.product = memory;
    return m;
  }

  static const double* input(const Buffers& b, size_t i) {
    return i < b.inputs.size() ? static_cast<const double*>(b.inputs[i]) : nullptr;
  }
  static double* output(const Buffers& b, size_t i) {
    return i < b.outputs.size() ? static_cast<double*>(b.outputs[i]) : nullptr;
  }

  std::vector<int64_t> lengths_of(const Buffers& b) const {
    std::vector<int64_t> lengths(static_cast<size_t>(s_.batch), s_.steps);
    const void* given = of_lengths < b.inputs.size() ? b.inputs[of_lengths] : nullptr;
    for (size_t i = 0; i < lengths.size() && given; ++i) {
      lengths[i] = wide_lengths_ ? static_cast<const int64_t*>(given)[i] : static_cast<const int32_t*>(given)[i];
      if (lengths[i] < 0 || lengths[i] > s_.steps) fail("sequence_lens has {}, expected 0 to {}", lengths[i], s_.steps);
    }
    return lengths;
  }

  /// to = from · rows of a weight, [columns, k] each.
  static void multiply(const wide::Gemm& product, const double* from, const double* weight, int64_t k, double* to,
                       int64_t columns, void* memory) {
    product.run({from, k, 1}, {weight, 1, k}, to, columns, memory);
  }

  void run_direction(const Buffers& b, const Memory& m, int64_t d, const std::vector<int64_t>& lengths) const {
    const bool backward = s_.reverse || d == 1;
    const double* r = input(b, of_r) + d * columns_ * s_.hidden;
    multiply(of_inputs_, input(b, of_x), input(b, of_w) + d * columns_ * s_.input, s_.input, m.inputs, columns_, m.product);
    begin(input(b, of_state), m.h, d);
    begin(input(b, of_cell), m.cell, d);
    const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
    for (int64_t step = 0; step < longest; ++step) {
      const int64_t columns = resets_first() ? 2 * s_.hidden : columns_;
      multiply(of_states_, m.h, r, s_.hidden, m.states, columns, m.product);
      const auto each = [&](auto&& unit) {
        parallel(unit_threads_, s_.batch * s_.hidden, 8, [&](int64_t first, int64_t last, int) {
          for (int64_t i = first; i < last; ++i) {
            const int64_t item = i / s_.hidden, length = lengths[static_cast<size_t>(item)];
            if (step >= length) continue;
            const int64_t t = backward ? length - 1 - step : step;
            unit(item, i % s_.hidden, t, m.inputs + s_.x_at(t, item) / std::max<int64_t>(1, s_.input) * columns_);
          }
        });
      };
      if (resets_first()) {
        each([&](int64_t item, int64_t k, int64_t, const double* x) { reset(b, m, d, item, k, x); });
        multiply(of_candidates_, m.scaled, r + 2 * s_.hidden * s_.hidden, s_.hidden, m.states, s_.hidden, m.product);
      }
      each([&](int64_t item, int64_t k, int64_t t, const double* x) {
        // The products have read the whole state: it is replaced in place.
        const double next = s_.gates == lstm_gates  ? lstm(b, m, d, item, k, x)
                            : s_.gates == gru_gates ? gru(b, m, d, item, k, x)
                                                    : rnn(b, m, d, item, k, x);
        m.h[item * s_.hidden + k] = next;
        if (double* y = output(b, 0)) y[s_.y_at(t, d, item) + k] = next;
      });
    }
    end(m.h, output(b, 1), d);
    if (s_.gates == lstm_gates) end(m.cell, output(b, 2), d);
  }

  void begin(const double* from, double* state, int64_t d) const {
    for (int64_t item = 0; item < s_.batch; ++item)
      for (int64_t k = 0; k < s_.hidden; ++k) state[item * s_.hidden + k] = from ? from[s_.state_at(d, item) + k] : 0;
  }
  void end(const double* state, double* to, int64_t d) const {
    for (int64_t item = 0; item < s_.batch && to; ++item)
      std::copy_n(state + item * s_.hidden, s_.hidden, to + s_.state_at(d, item));
  }

  /// Both biases of a gate's unit; R's alone.
  double bias(const Buffers& b, int64_t d, int64_t at) const {
    const double* bias = input(b, of_bias);
    return bias ? bias[d * 2 * columns_ + at] + bias[(d * 2 + 1) * columns_ + at] : 0;
  }
  double state_bias(const Buffers& b, int64_t d, int64_t at) const {
    const double* bias = input(b, of_bias);
    return bias ? bias[(d * 2 + 1) * columns_ + at] : 0;
  }

  double rnn(const Buffers& b, const Memory& m, int64_t d, int64_t item, int64_t k, const double* x) const {
    const double sum = x[k] + bias(b, d, k) + m.states[item * columns_ + k];
    return functions_[static_cast<size_t>(d)](s_.clipped(sum));
  }

  double lstm(const Buffers& b, const Memory& m, int64_t d, int64_t item, int64_t k, const double* x) const {
    const int64_t n = s_.hidden;
    const Activation* f = functions_.data() + 3 * d;
    const double* peephole = input(b, of_peephole);  // input, output, forget
    double& cell = m.cell[item * n + k];
    const auto sum = [&](int64_t gate) {
      return x[gate * n + k] + bias(b, d, gate * n + k) + m.states[item * columns_ + gate * n + k];
    };
    const auto peeped = [&](int64_t gate) { return peephole ? peephole[(d * 3 + gate) * n + k] * cell : 0; };
    const double in = f[0](s_.clipped(sum(0) + peeped(0)));
    const double forget = coupled_ ? 1 - in : f[0](s_.clipped(sum(2) + peeped(2)));
    cell = forget * cell + in * f[1](s_.clipped(sum(3)));
    return f[0](s_.clipped(sum(1) + peeped(1))) * f[2](cell);
  }

  /// The update gate of a GRU, and its state as the reset gate scales it.
  void reset(const Buffers& b, const Memory& m, int64_t d, int64_t item, int64_t k, const double* x) const {
    const int64_t n = s_.hidden, at = item * n + k;
    const double* states = m.states + item * 2 * n;
    const Activation& f = functions_[static_cast<size_t>(2 * d)];
    m.update[at] = f(s_.clipped(x[k] + bias(b, d, k) + states[k]));
    m.scaled[at] = f(s_.clipped(x[n + k] + bias(b, d, n + k) + states[n + k])) * m.h[at];
  }

  double gru(const Buffers& b, const Memory& m, int64_t d, int64_t item, int64_t k, const double* x) const {
    const int64_t n = s_.hidden, at = item * n + k;
    const Activation &f = functions_[static_cast<size_t>(2 * d)], &g = functions_[static_cast<size_t>(2 * d + 1)];
    double update = 0, hidden = x[2 * n + k] + bias(b, d, 2 * n + k);
    if (resets_first()) {
      update = m.update[at];
      hidden += m.states[at];
    } else {  // the reset gate scales R's bias too
      const double* states = m.states + item * columns_;
      const double own = state_bias(b, d, 2 * n + k);
      update = f(s_.clipped(x[k] + bias(b, d, k) + states[k]));
      const double reset = f(s_.clipped(x[n + k] + bias(b, d, n + k) + states[n + k]));
      hidden += reset * (states[2 * n + k] + own) - own;
    }
    return (1 - update) * g(s_.clipped(hidden)) + update * m.h[at];
  }

  Recurrent s_;
  std::vector<Activation> functions_;
  bool coupled_, linear_first_, wide_lengths_;
  int64_t columns_;
  int unit_threads_;
  wide::Gemm of_inputs_, of_states_, of_candidates_;
};

}  // namespace

void offer_recurrent_products(const BoundNode& b, const Machine& machine, Offer& offer) {
  for (size_t i = 0; i < b.inputs.size(); ++i)
    if (i != of_lengths && b.has(i) && b.inputs[i].type != DType::f64)
      return offer.refuse("cpu", Reason::wrong_type, "products: input {} is {}", i, name(b.inputs[i].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const double products = static_cast<double>(recurrent_flops(b)) / 2;
  const double steps = static_cast<double>(b.inputs[0].shape[b.node->get_int("layout", 0) != 0 ? 1 : 0]);
  offer.candidates.push_back(
      {"cpu", "products", 2 + 3 * steps + products / 5e3 / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<RecurrentProducts>(bound, threads);
       }});
}

}  // namespace smelt::ops
