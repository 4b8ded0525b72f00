#include "ops/rnn/recurrent.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::ops {
namespace {

void expect_shape(std::span<const TensorDesc> inputs, size_t i, const Shape& expected, const char* what) {
  if (i >= inputs.size() || !inputs[i].present() || !inputs[i].shape_known) return;
  if (inputs[i].shape != expected) fail("{} has shape {}, expected {}", what, to_string(inputs[i].shape), to_string(expected));
}

}  // namespace

double Recurrent::clipped(double v) const { return clip > 0 ? std::clamp(v, -clip, clip) : v; }

Recurrent recurrent(const Node& node, int64_t gates, std::span<const TensorDesc> inputs) {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape, &r = inputs[2].shape;
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) {
    fail("X, W and R have shapes {}, {} and {}, expected rank 3", to_string(x), to_string(w), to_string(r));
  }
  Recurrent out;
  out.gates = gates;
  out.batch_first = node.get_int("layout", 0) != 0;
  out.steps = x[out.batch_first ? 1 : 0];
  out.batch = x[out.batch_first ? 0 : 1];
  out.input = x[2];
  out.hidden = r[2];
  out.clip = node.get_float("clip", 0);
  const std::string direction = node.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    fail("direction is '{}', expected forward, reverse or bidirectional", direction);
  }
  out.directions = direction == "bidirectional" ? 2 : 1;
  out.reverse = direction == "reverse";
  if (node.has("hidden_size") && node.get_int("hidden_size", 0) != out.hidden) {
    fail("hidden_size is {}, but R has shape {}", node.get_int("hidden_size", 0), to_string(r));
  }
  const int64_t rows = gates * out.hidden;
  expect_shape(inputs, 1, {out.directions, rows, out.input}, "W");
  expect_shape(inputs, 2, {out.directions, rows, out.hidden}, "R");
  expect_shape(inputs, 3, {out.directions, 2 * rows}, "B");
  expect_shape(inputs, 4, {out.batch}, "sequence_lens");
  expect_shape(inputs, 5, out.state_shape(), "initial_h");
  expect_shape(inputs, 6, out.state_shape(), "initial_c");
  expect_shape(inputs, 7, {out.directions, 3 * out.hidden}, "P");
  return out;
}

Recurrent quantized_lstm(const Node& node, std::span<const TensorDesc> inputs) {
  std::vector<TensorDesc> plain(inputs.begin(), inputs.begin() + static_cast<int64_t>(std::min<size_t>(inputs.size(), 8)));
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (plain[i].shape.size() == 3) std::swap(plain[i].shape[1], plain[i].shape[2]);
  }
  const Recurrent r = recurrent(node, lstm_gates, plain);
  constexpr const char* names[] = {"W_scale", "W_zero_point", "R_scale", "R_zero_point"};
  for (size_t i = 8; i < std::min<size_t>(inputs.size(), 12); ++i) {
    if (!inputs[i].present() || !inputs[i].shape_known) continue;
    const int64_t size = elements(inputs[i].shape), columns = lstm_gates * r.hidden;
    if (size != r.directions && size != r.directions * columns)
      fail("{} has shape {}, expected [{}] or [{}, {}]", names[i - 8], to_string(inputs[i].shape), r.directions, r.directions,
           columns);
  }
  return r;
}

std::vector<std::string> default_activations(int64_t gates) {
  if (gates == rnn_gates) return {"Tanh"};
  if (gates == gru_gates) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

int64_t recurrent_flops(const BoundNode& b) {
  if (b.inputs.size() < 3 || b.inputs[0].shape.size() != 3) return 0;
  const Shape& x = b.inputs[0].shape;
  return 2 * x[0] * x[1] * (elements(b.inputs[1].shape) + elements(b.inputs[2].shape));
}

Recurrent recurrent(const ComputeContext& c, int64_t gates) {
  std::vector<TensorDesc> in(c.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (c.has(i)) in[i] = {c.in(i).type(), c.in(i).shape(), true, nullptr};
  }
  const Recurrent r = recurrent(c.node, gates, in);
  if (c.has(4)) {
    for (int64_t length : c.in(4).to_ints()) {
      if (length < 0 || length > r.steps) fail("sequence_lens has {}, expected 0 to {}", length, r.steps);
    }
  }
  return r;
}

void set_recurrent_outputs(InferContext& c, const Recurrent& r) {
  c.set(0, c.in(0).type, r.y_shape());
  c.set(1, c.in(0).type, r.state_shape());
  c.set(2, c.in(0).type, r.state_shape());
}

template <class T> void project_input(const Recurrent& r, const T* x, const T* w, const T* bias, std::vector<double>& sums) {
  const int64_t rows = r.gates * r.hidden;
  sums.resize(static_cast<size_t>(rows));
  for (int64_t g = 0; g < rows; ++g) {
    double sum = bias ? static_cast<double>(bias[g]) + static_cast<double>(bias[rows + g]) : 0;
    for (int64_t k = 0; k < r.input; ++k) sum += static_cast<double>(x[k]) * static_cast<double>(w[g * r.input + k]);
    sums[static_cast<size_t>(g)] = sum;
  }
}

template <class T> double project_state(const Recurrent& r, const std::vector<double>& h, const T* row) {
  double sum = 0;
  for (int64_t k = 0; k < r.hidden; ++k) sum += h[static_cast<size_t>(k)] * static_cast<double>(row[k]);
  return sum;
}

template void project_input<float>(const Recurrent&, const float*, const float*, const float*, std::vector<double>&);
template void project_input<double>(const Recurrent&, const double*, const double*, const double*, std::vector<double>&);
template double project_state<float>(const Recurrent&, const std::vector<double>&, const float*);
template double project_state<double>(const Recurrent&, const std::vector<double>&, const double*);

}  // namespace smelt::ops
