// The windows and MelWeightMatrix.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/signal/family.h"
#include "ops/signal/windows.h"

namespace smelt::ops {

CosineWindow cosine_window(const Node& node) {
  if (node.op == "HammingWindow") return {25.0 / 46, 21.0 / 46, 0};
  if (node.op == "BlackmanWindow") return {0.42, 0.5, 0.08};
  return {0.5, 0.5, 0};
}

namespace {

constexpr double pi = std::numbers::pi;

int64_t scalar_int(const Tensor& t, const char* what) {
  if (t.size() != 1) fail("{} has shape {}, expected one element", what, to_string(t.shape()));
  return t.to_ints()[0];
}

struct MelBand {
  double low, high;  // in mel
};

/// The band of frequencies; the logarithm takes those above -700 Hz.
MelBand mel_band(const Tensor& low, const Tensor& high) {
  const auto mel = [](const Tensor& t, const char* what) {
    if (t.size() != 1) fail("{} has shape {}, expected one element", what, to_string(t.shape()));
    const double hertz = t.to_doubles()[0], m = 2595 * std::log10(1 + hertz / 700);
    if (!std::isfinite(m)) fail("{} is {}, expected a number above -700", what, hertz);
    return m;
  };
  return {mel(low, "lower_edge_hertz"), mel(high, "upper_edge_hertz")};
}

}  // namespace

MelFilter mel_filter(std::span<const Tensor> in) {
  const int64_t bins = scalar_int(in[0], "num_mel_bins"), length = scalar_int(in[1], "dft_length");
  const double rate = static_cast<double>(scalar_int(in[2], "sample_rate"));
  const MelBand band = mel_band(in[3], in[4]);
  if (bins < 1 || length < 1 || !(rate > 0))
    fail("num_mel_bins, dft_length and sample_rate are {}, {} and {}", bins, length, rate);
  MelFilter filter{length / 2 + 1, bins, {}};
  const double first = band.low, step = (band.high - first) / static_cast<double>(bins + 2);
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10.0, (first + static_cast<double>(k) * step) / 2595) - 1);
    filter.edges.push_back(
        truncated(std::floor((static_cast<double>(length) + 1) * hertz / rate)));  // beyond the rows: any number does
  }
  return filter;
}

namespace {

// --- windows: a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n) ---

DType output_datatype(const Node& node) { return static_cast<DType>(node.get_int("output_datatype", 1)); }

void infer_window(InferContext& c) {
  const auto size = c.ints(0);
  if (!size) return c.set_type(0, output_datatype(c.node));
  if (size->size() != 1 || (*size)[0] < 0) fail("size must be one number that is not negative");
  c.set(0, output_datatype(c.node), {(*size)[0]});
}

void store(const std::vector<double>& v, ComputeContext& c, const Shape& shape) {
  const Tensor result = Tensor::of<double>(shape, v).cast(output_datatype(c.node));
  std::memcpy(allocated(c, 0, result.type(), shape).raw(), result.raw(), static_cast<size_t>(result.nbytes()));
}

void run_window(ComputeContext& c) {
  const int64_t size = scalar_int(c.in(0), "size");
  const CosineWindow w = cosine_window(c.node);
  const double n = static_cast<double>(c.node.get_int("periodic", 1) ? size : size - 1);
  std::vector<double> v;
  for (int64_t k = 0; k < size; ++k) {
    const double angle = n > 0 ? 2 * pi * static_cast<double>(k) / n : pi;  // a window of one is its peak
    v.push_back(w.a0 - w.a1 * std::cos(angle) + w.a2 * std::cos(2 * angle));
  }
  store(v, c, {size});
}

// --- MelWeightMatrix: num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz ---

void infer_mel(InferContext& c) {
  if (c.in(3).value && c.in(4).value) mel_band(*c.in(3).value, *c.in(4).value);
  const auto bins = c.ints(0), length = c.ints(1);
  if (!bins || !length) return c.set_type(0, output_datatype(c.node));
  c.set(0, output_datatype(c.node), {length->at(0) / 2 + 1, bins->at(0)});
}

void run_mel(ComputeContext& c) {
  const MelFilter filter = mel_filter(c.inputs);
  std::vector<double> v(static_cast<size_t>(filter.rows * filter.bins), 0.0);
  filter.for_each_weight(
      [&](int64_t row, int64_t bin, double value) { v[static_cast<size_t>(row * filter.bins + bin)] = value; });
  store(v, c, {filter.rows, filter.bins});
}

}  // namespace

std::span<const OpRow> signal_ops() {
  static constexpr OpRow table[] = {
      {{"HannWindow", onnx_domain, infer_window, run_window}, {.expands_on_gpu = true}},
      {{"HammingWindow", onnx_domain, infer_window, run_window}, {.expands_on_gpu = true}},
      {{"BlackmanWindow", onnx_domain, infer_window, run_window}, {.expands_on_gpu = true}},
      {{"MelWeightMatrix", onnx_domain, infer_mel, run_mel}, {.autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
