// RNN, GRU and LSTM, one layer, by the equations in ONNX's definitions, and ONNX Runtime's DynamicQuantizeLSTM.
#include <algorithm>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/quantize/quantize.h"
#include "ops/rnn/family.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

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
    const std::vector<Activation> f = recurrent_activations(c.node, default_activations(rnn_gates), s.directions);
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
    const std::vector<Activation> functions = recurrent_activations(c.node, default_activations(gru_gates), s.directions);
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

/// `seen(h)`: the state as the products with R read it.
template <class T, class Seen> void lstm(ComputeContext& c, Seen&& seen) {
  const Recurrent s = recurrent(c, lstm_gates);
  const std::vector<Activation> functions = recurrent_activations(c.node, default_activations(lstm_gates), s.directions);
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
    const auto& state = seen(h);
    for (size_t g = 0; g < 4 * n; ++g) sums[g] += project_state(s, state, p.r + static_cast<int64_t>(g) * s.hidden);
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
}

void run_lstm(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    lstm<decltype(zero)>(c, [](const std::vector<double>& h) -> const std::vector<double>& { return h; });
  });
}

// com.microsoft:DynamicQuantizeLSTM. inputs: x, w, r, b?, sequence_lens?, initial_h?, initial_c?, p?, w_scale, w_zero?, r_scale,
// r_zero?

std::vector<TensorDesc> descriptions(std::span<const Tensor> tensors) {
  std::vector<TensorDesc> out(tensors.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (tensors[i].valid()) out[i] = {tensors[i].type(), tensors[i].shape(), true, nullptr};
  }
  return out;
}

void infer_quantized_lstm(InferContext& c) {
  for (size_t i = 0; i < 3; ++i) c.shape(i);
  for (size_t i : {size_t{8}, size_t{10}}) {
    if (!c.has(i)) fail("input {} ({}) is missing", i, i == 8 ? "W_scale" : "R_scale");
  }
  set_recurrent_outputs(c, quantized_lstm(c.node, c.inputs));
}

/// What ONNX Runtime computes: X of all steps that an item takes is quantised at once, the state of an item in every step.
void run_quantized_lstm(ComputeContext& c) {
  const Recurrent s = quantized_lstm(c.node, descriptions(c.inputs));
  int64_t longest = s.steps;
  if (c.has(4)) {
    const std::vector<int64_t> lengths = c.in(4).to_ints();
    longest = lengths.empty() ? 0 : std::clamp<int64_t>(*std::ranges::max_element(lengths), 0, s.steps);
  }
  Tensor taken = c.in(0).clone();  // zero behind the longest item: zeros do not widen the range
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = longest; t < s.steps; ++t) std::fill_n(taken.data<float>() + s.x_at(t, b), s.input, 0.0f);
  }
  const auto rounded = [](const Tensor& x) {
    const DynamicQuantized q = dynamic_quantize(x);
    return dequantized(q.values, Tensor::scalar(q.scale), Tensor::scalar(q.zero_point));
  };
  std::vector<Tensor> inputs(c.inputs.begin(), c.inputs.begin() + 8);
  inputs[0] = rounded(taken);
  inputs[1] = dequantized_weights(c.in(1), c.in(8), c.in(9), lstm_gates * s.hidden);
  inputs[2] = dequantized_weights(c.in(2), c.in(10), c.in(11), lstm_gates * s.hidden);
  ComputeContext plain{c.node, inputs, c.outputs, {}};
  Tensor state = Tensor::empty(DType::f32, {s.hidden});
  lstm<float>(plain, [&](const std::vector<double>& h) {
    std::ranges::transform(h, state.data<float>(), [](double v) { return static_cast<float>(v); });
    return rounded(state).to_doubles();
  });
}

}  // namespace

Tensor dequantized_weights(const Tensor& w, const Tensor& scale, const Tensor& zero, int64_t columns) {
  const int64_t directions = w.shape()[0], k = w.shape()[1];
  const std::vector<double> from = w.to_doubles(), by = scale.to_doubles(),
                            less = zero.valid() ? zero.to_doubles() : std::vector<double>(1);
  const auto of = [&](const std::vector<double>& v, int64_t d, int64_t n) {
    const int64_t size = static_cast<int64_t>(v.size());
    return v[static_cast<size_t>(size == directions * columns ? d * columns + n : size == directions ? d : 0)];
  };
  Tensor out = Tensor::empty(DType::f32, {directions, columns, k});
  float* to = out.data<float>();
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t n = 0; n < columns; ++n) {
      for (int64_t i = 0; i < k; ++i)
        *to++ = static_cast<float>((from[static_cast<size_t>((d * k + i) * columns + n)] - of(less, d, n)) * of(by, d, n));
    }
  }
  return out;
}

std::span<const OpRow> rnn_ops() {
  static constexpr OpRow table[] = {
      {{"RNN", onnx_domain, infer_recurrent<rnn_gates>, run_rnn}, {.flops = {.count = recurrent_flops}, .contracts = true}},
      {{"GRU", onnx_domain, infer_recurrent<gru_gates>, run_gru}, {.flops = {.count = recurrent_flops}, .contracts = true}},
      {{"LSTM", onnx_domain, infer_recurrent<lstm_gates>, run_lstm}, {.flops = {.count = recurrent_flops}, .contracts = true}},
      {{"DynamicQuantizeLSTM", microsoft_domain, infer_quantized_lstm, run_quantized_lstm},
       {.flops = {.count = recurrent_flops}, .autocast = Autocast::no_form, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
