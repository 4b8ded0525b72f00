#include "ops/rnn/cpu_plan.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/parallel.h"

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

Recurrent extents(const BoundNode& b) {
  const Node& n = *b.node;
  std::vector<TensorDesc> in(b.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (b.has(i)) in[i] = {b.inputs[i].type, b.inputs[i].shape, true, nullptr};
  }
  if (is_quantized_lstm(n)) return quantized_lstm(n, in);
  return recurrent(n, n.op == "RNN" ? rnn_gates : n.op == "GRU" ? gru_gates : lstm_gates, in);
}

}  // namespace

bool is_quantized_lstm(const Node& n) { return n.is("DynamicQuantizeLSTM", microsoft_domain); }

RecurrentPlan::RecurrentPlan(const BoundNode& b, int most_threads)
    : s(extents(b)),
      quantized(is_quantized_lstm(*b.node)),
      simd(recurrent_simd(s.hidden, quantized)),
      type(required_float_kind(b.inputs[0].type)),
      element(smelt::bytes(b.inputs[0].type, 1)),
      panels((s.hidden + simd.lanes - 1) / simd.lanes),
      padded(panels * simd.lanes),
      resets_first(s.gates == gru_gates && b.node->get_int("linear_before_reset", 0) == 0),
      coupled(b.node->get_int("input_forget", 0) != 0) {
  const int64_t g = s.gates, h = s.hidden, d = s.directions, first = resets_first ? 2 : g;
  w = RecurrentWeights(b, {1, quantized ? size_t{8} : 0, g, 0, g, h, s.input, d});
  r = RecurrentWeights(b, {2, quantized ? size_t{10} : 0, g, 0, first, h, h, d});
  if (resets_first) candidate = RecurrentWeights(b, {2, 0, g, 2, 1, h, h, d});
  for (size_t i = 0; i < b.inputs.size(); ++i) given.push_back(b.has(i));
  if (has(4)) length_type = b.inputs[4].type;
  for (const Activation& a : recurrent_activations(*b.node, default_activations(g), d)) functions.push_back(gate_activation(a));
  share(most_threads);
  cut();
}

void RecurrentPlan::share(int most_threads) {
  constexpr int64_t products_a_byte = 16;  // of useful_threads' unit: a core takes so many in the time of one
  const int64_t step = s.gates * s.hidden * s.hidden;
  const int64_t all = s.steps * s.batch * s.directions * (step + s.gates * s.hidden * s.input);
  threads = useful_threads(most_threads, all / products_a_byte);
  // Half of a small L2 cache: a core that reads more in a step finds little of it at the next one.
  constexpr int64_t most_bytes = 1 << 19;
  const int64_t bytes = step * (quantized ? 1 : 4);
  const bool large = bytes > most_bytes;
  if (large) turn_panels = std::max<int64_t>(1, panels * (most_bytes / 8) / bytes);
  // A part of the batch has at least a tile's rows.
  constexpr int64_t fewest_items = 4;
  const int64_t wanted = (threads + s.directions - 1) / s.directions;
  // Each part would read all of R by itself.
  parts = large ? 1 : std::clamp<int64_t>(s.batch / fewest_items, 1, std::max<int64_t>(1, wanted));
  in_turn = large && threads > 1;
  // A region costs about a microsecond: a thread gets some five of each step.
  constexpr int64_t smallest_share = 1 << 17;
  const int64_t team_threads = std::min<int64_t>(threads, most_shares) / (in_turn ? 1 : groups());
  const int64_t items = (s.batch + parts - 1) / parts;
  team = static_cast<int>(
      std::clamp<int64_t>(std::min(team_threads, items * step / smallest_share), 1, std::max<int64_t>(1, panels)));
}

void RecurrentPlan::cut() {
  const int64_t items = s.directions * s.batch, rows = s.steps * s.batch, group = (s.batch + parts - 1) / parts;
  packed_at[0] = memory.take(w.workspace());
  packed_at[1] = memory.take(r.workspace());
  packed_at[2] = memory.take(resets_first ? candidate.workspace() : 0);
  order_at = memory.take(s.batch * 2 * 8);
  biases_at = memory.take(s.directions * bias_floats() * 4);
  peepholes_at = memory.take(has(7) ? s.directions * 3 * padded * 4 : 0);
  x_at = memory.take(type == FloatKind::f32 ? 0 : rows * s.input * 4);
  x_bytes_at = memory.take(quantized ? rows * byte_row(s.input) : 0);
  x_sums_at = memory.take(quantized ? rows * 4 : 0);
  inputs_at = memory.take(s.directions * rows * row_floats() * 4);
  for (int64_t& at : state_at) at = memory.take(items * padded * 4);
  sums_floats = std::max<int64_t>(4096, group * r.gates() * simd.lanes);
  thread_sums = aligned(sums_floats * 4);
  thread_pointers = aligned(group * 2 * 8);
  thread_bytes = quantized ? aligned(group * byte_row(s.hidden)) : 0;
  thread_ranges = quantized ? aligned(group * static_cast<int64_t>(sizeof(QuantizedRow))) : 0;
  threads_at = memory.take(threads * (thread_sums + thread_pointers + thread_bytes + thread_ranges));
}

}  // namespace smelt::ops
