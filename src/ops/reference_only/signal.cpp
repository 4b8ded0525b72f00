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
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

constexpr double pi = std::numbers::pi;

int64_t scalar_int(const Tensor& t, const char* what) {
  if (t.size() != 1) fail("{} has shape {}, expected one element", what, to_string(t.shape()));
  return t.to_ints()[0];
}

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

void cosine_window(ComputeContext& c, double a0, double a1, double a2) {
  const int64_t size = scalar_int(c.in(0), "size");
  const double n = static_cast<double>(c.node.get_int("periodic", 1) ? size : size - 1);
  std::vector<double> v;
  for (int64_t k = 0; k < size; ++k) {
    const double angle = n > 0 ? 2 * pi * static_cast<double>(k) / n : pi;  // a window of one is its peak
    v.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  store(v, c, {size});
}

void run_hann(ComputeContext& c) { cosine_window(c, 0.5, 0.5, 0); }
void run_hamming(ComputeContext& c) { cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }
void run_blackman(ComputeContext& c) { cosine_window(c, 0.42, 0.5, 0.08); }

// --- MelWeightMatrix: num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz ---

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

void infer_mel(InferContext& c) {
  if (c.in(3).value && c.in(4).value) mel_band(*c.in(3).value, *c.in(4).value);
  const auto bins = c.ints(0), length = c.ints(1);
  if (!bins || !length) return c.set_type(0, output_datatype(c.node));
  c.set(0, output_datatype(c.node), {length->at(0) / 2 + 1, bins->at(0)});
}

void run_mel(ComputeContext& c) {
  const int64_t bins = scalar_int(c.in(0), "num_mel_bins"), length = scalar_int(c.in(1), "dft_length");
  const double rate = static_cast<double>(scalar_int(c.in(2), "sample_rate"));
  const MelBand band = mel_band(c.in(3), c.in(4));
  if (bins < 1 || length < 1 || !(rate > 0))
    fail("num_mel_bins, dft_length and sample_rate are {}, {} and {}", bins, length, rate);
  const int64_t rows = length / 2 + 1;
  // The band edges, equally spaced in mel, as rows of the spectrum.
  std::vector<int64_t> edges;
  const double first = band.low, step = (band.high - first) / static_cast<double>(bins + 2);
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10.0, (first + static_cast<double>(k) * step) / 2595) - 1);
    edges.push_back(truncated(std::floor((static_cast<double>(length) + 1) * hertz / rate)));  // beyond the rows: any number does
  }
  std::vector<double> v(static_cast<size_t>(rows * bins), 0.0);
  for (int64_t k = 0; k < bins; ++k) {
    const int64_t left = edges[static_cast<size_t>(k)], peak = edges[static_cast<size_t>(k + 1)],
                  right = edges[static_cast<size_t>(k + 2)];
    const auto set = [&](int64_t row, double value) { v[static_cast<size_t>(row * bins + k)] = value; };
    const auto between = [](int64_t a, int64_t b) { return static_cast<double>(b) - static_cast<double>(a); };  // may not fit
    if (peak == left && peak >= 0 && peak < rows) set(peak, 1);
    for (int64_t row = std::max<int64_t>(0, left); row < rows && row <= peak && peak > left; ++row)
      set(row, between(left, row) / between(left, peak));
    for (int64_t row = std::max<int64_t>(0, peak); row < std::min(right, rows); ++row)
      set(row, between(row, right) / between(peak, right));
  }
  store(v, c, {rows, bins});
}

}  // namespace

std::span<const OpRow> signal_ops() {
  static constexpr OpRow table[] = {
      {{"HannWindow", onnx_domain, infer_window, run_hann}, {.expands_on_gpu = true}},
      {{"HammingWindow", onnx_domain, infer_window, run_hamming}, {.expands_on_gpu = true}},
      {{"BlackmanWindow", onnx_domain, infer_window, run_blackman}, {.expands_on_gpu = true}},
      {{"MelWeightMatrix", onnx_domain, infer_mel, run_mel}, {.half = Half::wide}},
  };
  return table;
}

}  // namespace smelt::ops
