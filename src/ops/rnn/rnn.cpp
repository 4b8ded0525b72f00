// RNN, GRU and LSTM, one layer, by the equations in ONNX's definitions.
#include <algorithm>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/rnn/family.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

constexpr int64_t rnn_gates = 1, gru_gates = 3, lstm_gates = 4;

template <int64_t gates> void infer_recurrent(InferContext& c) {
  for (size_t i = 0; i < 3; ++i) c.shape(i);
  set_recurrent_outputs(c, recurrent(c.node, gates, c.inputs));
}

/// One direction's part of W, R and B.
template <class T> struct Weights {
  const T *w, *r, *b;
  Weights(const ComputeContext& c, const Recurrent& s, int64_t d)
      : w(c.in(1).data<T>() + d * s.gates * s.hidden * s.input),
        r(c.in(2).data<T>() + d * s.gates * s.hidden * s.hidden),
        b(c.has(3) ? c.in(3).data<T>() + d * 2 * s.gates * s.hidden : nullptr) {}
};

void nothing(int64_t, int64_t) {}

void run_rnn(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Recurrent s = recurrent(c, rnn_gates);
    const std::vector<Activation> f = recurrent_activations(c.node, {"Tanh"}, s.directions);
    std::vector<double> sums;
    for_each_step<T>(
        c, s, nothing,
        [&](int64_t d, const T* x, std::vector<double>& h) {
          const Weights<T> p(c, s, d);
          project_input(s, x, p.w, p.b, sums);
          for (int64_t k = 0; k < s.hidden; ++k) sums[static_cast<size_t>(k)] += project_state(s, h, p.r + k * s.hidden);
          for (size_t k = 0; k < h.size(); ++k) h[k] = f[static_cast<size_t>(d)](s.clipped(sums[k]));
        },
        nothing);
  });
}

void run_gru(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Recurrent s = recurrent(c, gru_gates);
    const std::vector<Activation> functions = recurrent_activations(c.node, {"Sigmoid", "Tanh"}, s.directions);
    const bool linear_first = c.node.get_int("linear_before_reset", 0) != 0;
    const size_t n = static_cast<size_t>(s.hidden);
    std::vector<double> sums, update(n), reset(n), scaled(n), next(n);
    for_each_step<T>(
        c, s, nothing,
        [&](int64_t d, const T* x, std::vector<double>& h) {
          const Weights<T> p(c, s, d);
          const Activation &f = functions[static_cast<size_t>(2 * d)], &g = functions[static_cast<size_t>(2 * d + 1)];
          const auto row = [&](size_t gate, size_t k) { return p.r + static_cast<int64_t>(gate * n + k) * s.hidden; };
          project_input(s, x, p.w, p.b, sums);
          for (size_t k = 0; k < n; ++k) {
            update[k] = f(s.clipped(sums[k] + project_state(s, h, row(0, k))));
            reset[k] = f(s.clipped(sums[n + k] + project_state(s, h, row(1, k))));
            scaled[k] = reset[k] * h[k];
          }
          for (size_t k = 0; k < n; ++k) {
            double hidden = sums[2 * n + k];
            if (linear_first) {  // the reset gate scales R's bias too
              const double bias = p.b ? static_cast<double>(p.b[5 * n + k]) : 0;
              hidden += reset[k] * (project_state(s, h, row(2, k)) + bias) - bias;
            } else {
              hidden += project_state(s, scaled, row(2, k));
            }
            next[k] = (1 - update[k]) * g(s.clipped(hidden)) + update[k] * h[k];
          }
          h = next;
        },
        nothing);
  });
}

void run_lstm(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Recurrent s = recurrent(c, lstm_gates);
    const std::vector<Activation> functions = recurrent_activations(c.node, {"Sigmoid", "Tanh", "Tanh"}, s.directions);
    const bool coupled = c.node.get_int("input_forget", 0) != 0;
    const T *initial = optional_data<T>(c, 6), *peephole = optional_data<T>(c, 7);
    T* last = c.outputs.size() > 2 && c.wants(2) ? c.outputs[2].data<T>() : nullptr;
    const size_t n = static_cast<size_t>(s.hidden);
    std::vector<double> sums, cell(n);
    const auto begin = [&](int64_t d, int64_t b) {
      for (size_t k = 0; k < n; ++k)
        cell[k] = initial ? static_cast<double>(initial[s.state_at(d, b) + static_cast<int64_t>(k)]) : 0;
    };
    const auto step = [&](int64_t d, const T* x, std::vector<double>& h) {
      const Weights<T> p(c, s, d);
      const Activation* f = functions.data() + 3 * d;
      const T* peep = peephole ? peephole + d * 3 * s.hidden : nullptr;  // input, output, forget
      const auto peeped = [&](size_t gate, size_t k) { return peep ? static_cast<double>(peep[gate * n + k]) * cell[k] : 0.0; };
      project_input(s, x, p.w, p.b, sums);
      for (size_t g = 0; g < 4 * n; ++g) sums[g] += project_state(s, h, p.r + static_cast<int64_t>(g) * s.hidden);
      for (size_t k = 0; k < n; ++k) {
        const double in = f[0](s.clipped(sums[k] + peeped(0, k)));
        const double forget = coupled ? 1 - in : f[0](s.clipped(sums[2 * n + k] + peeped(2, k)));
        cell[k] = forget * cell[k] + in * f[1](s.clipped(sums[3 * n + k]));
        h[k] = f[0](s.clipped(sums[n + k] + peeped(1, k))) * f[2](cell[k]);
      }
    };
    const auto end = [&](int64_t d, int64_t b) {
      if (last) std::transform(cell.begin(), cell.end(), last + s.state_at(d, b), [](double v) { return static_cast<T>(v); });
    };
    for_each_step<T>(c, s, begin, step, end);
  });
}

}  // namespace

std::span<const OpRow> rnn_ops() {
  static constexpr OpRow table[] = {
      {{"RNN", onnx_domain, infer_recurrent<rnn_gates>, run_rnn}, {.contracts = true}},
      {{"GRU", onnx_domain, infer_recurrent<gru_gates>, run_gru}, {.contracts = true}},
      {{"LSTM", onnx_domain, infer_recurrent<lstm_gates>, run_lstm}, {.contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
