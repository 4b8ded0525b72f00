// DFT, STFT, the windows and MelWeightMatrix. Transforms are sums straight from the definition, with the roots of unity in a
// table.
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

constexpr double pi = std::numbers::pi;

struct Complex {
  double re = 0, im = 0;
};

/// e^(sign * 2 pi i k / n) for k < n.
std::vector<Complex> roots_of_unity(int64_t n, int sign) {
  std::vector<Complex> out(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const double angle = sign * 2 * pi * static_cast<double>(k) / static_cast<double>(n);
    out[static_cast<size_t>(k)] = {std::cos(angle), std::sin(angle)};
  }
  return out;
}

/// sum over j of x[j] * root^(j k): one coefficient.
Complex coefficient(const std::vector<Complex>& x, const std::vector<Complex>& roots, int64_t k) {
  Complex sum;
  const size_t n = roots.size();
  size_t at = 0;
  for (const Complex& v : x) {
    const Complex& w = roots[at];
    sum.re += v.re * w.re - v.im * w.im;
    sum.im += v.re * w.im + v.im * w.re;
    at = (at + static_cast<size_t>(k)) % n;
  }
  return sum;
}

int64_t scalar_int(const Tensor& t, const char* what) {
  if (t.size() != 1) fail("{} has shape {}, expected one element", what, to_string(t.shape()));
  return t.to_ints()[0];
}

struct Dft {
  bool inverse = false, onesided = false;
  int64_t axis = 0, length = 0;
  Shape y;
};

/// Opset 17 had the axis as an attribute (1 by default), 20 and later as input 2 (-2 by default).
Dft dft_of(const Node& node, const Shape& x, std::optional<int64_t> length, std::optional<int64_t> axis) {
  const int64_t rank = static_cast<int64_t>(x.size());
  if (rank < 2 || (x.back() != 1 && x.back() != 2)) fail("the input has shape {}, expected [signal…, 1 or 2]", to_string(x));
  Dft d;
  d.inverse = node.get_int("inverse", 0) != 0;
  d.onesided = node.get_int("onesided", 0) != 0;
  d.axis = normalize_axis(axis.value_or(node.get_int("axis", -2)), rank);
  if (d.axis == rank - 1) fail("the axis is the last, which holds the real and the imaginary part");
  const int64_t extent = x[static_cast<size_t>(d.axis)];
  d.length = length.value_or(d.inverse && d.onesided ? 2 * (extent - 1) : extent);
  if (d.length < 1) fail("dft_length is {}, expected at least 1", d.length);
  d.y = x;
  d.y[static_cast<size_t>(d.axis)] = d.onesided && !d.inverse ? d.length / 2 + 1 : d.length;
  d.y.back() = d.onesided && d.inverse ? 1 : 2;
  return d;
}

void infer_dft(InferContext& c) {
  const auto length = c.ints(1), axis = c.ints(2);
  if ((c.has(1) && !length) || (c.has(2) && !axis)) return c.set_type(0, type_of(c, 0));
  const auto first = [](const auto& v) { return v && !v->empty() ? std::optional((*v)[0]) : std::nullopt; };
  c.set(0, type_of(c, 0), dft_of(c.node, c.shape(0), first(length), first(axis)).y);
}

void run_dft(ComputeContext& ctx) {
  const auto given = [&](size_t i, const char* what) {
    return ctx.has(i) ? std::optional(scalar_int(ctx.in(i), what)) : std::nullopt;
  };
  const Dft d = dft_of(ctx.node, ctx.in(0).shape(), given(1, "dft_length"), given(2, "axis"));
  allocated(ctx, 0, ctx.in(0).type(), d.y);
  in_float(ctx, [&d](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const AxisView in = around_axis(shape, d.axis), out = around_axis(d.y, d.axis);
    const int64_t parts = shape.back(), out_parts = d.y.back(), lines = in.inner / parts;
    const std::vector<Complex> roots = roots_of_unity(d.length, d.inverse ? 1 : -1);
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    std::vector<Complex> signal(static_cast<size_t>(d.length));
    for (int64_t line = 0; line < in.outer * lines; ++line) {
      const int64_t o = line / lines, i = line % lines;
      for (int64_t k = 0; k < d.length; ++k) {
        int64_t from = k;
        bool conjugate = false;
        if (d.inverse && d.onesided && k > d.length / 2) {  // the half that is not stored
          from = d.length - k;
          conjugate = true;
        }
        Complex& v = signal[static_cast<size_t>(k)] = {};
        if (from >= in.extent) continue;  // zero padding
        const T* p = x + (o * in.extent + from) * in.inner + i * parts;
        v.re = static_cast<double>(p[0]);
        if (parts == 2) v.im = conjugate ? -static_cast<double>(p[1]) : static_cast<double>(p[1]);
      }
      for (int64_t k = 0; k < out.extent; ++k) {
        Complex v = coefficient(signal, roots, k);
        const double scale = d.inverse ? 1 / static_cast<double>(d.length) : 1;
        T* p = y + (o * out.extent + k) * out.inner + i * out_parts;
        p[0] = static_cast<T>(v.re * scale);
        if (out_parts == 2) p[1] = static_cast<T>(v.im * scale);
      }
    }
  });
}

// --- STFT: signal [batch, length, 1 or 2], frame_step, window?, frame_length? ---

Shape stft_shape(const Node& node, const Shape& x, int64_t step, int64_t frame) {
  if (x.size() != 3 || (x[2] != 1 && x[2] != 2)) fail("the signal has shape {}, expected [batch, length, 1 or 2]", to_string(x));
  if (step < 1 || frame < 1 || frame > x[1])
    fail("frame_step {} and frame_length {} do not fit a signal of {}", step, frame, x[1]);
  const bool onesided = node.get_int("onesided", 1) != 0;
  if (onesided && x[2] == 2) fail("a complex signal has no one-sided transform; set onesided to 0");
  return {x[0], (x[1] - frame) / step + 1, onesided ? frame / 2 + 1 : frame, 2};
}

void infer_stft(InferContext& c) {
  const auto step = c.ints(1), frame = c.ints(3);
  if (!step || (c.has(3) && !frame)) return c.set_type(0, type_of(c, 0));
  const int64_t length = frame ? frame->at(0) : c.has(2) ? c.shape(2).at(0) : c.shape(0).at(1);
  c.set(0, type_of(c, 0), stft_shape(c.node, c.shape(0), step->at(0), length));
}

void run_stft(ComputeContext& ctx) {
  const int64_t step = scalar_int(ctx.in(1), "frame_step");
  const int64_t frame = ctx.has(3)   ? scalar_int(ctx.in(3), "frame_length")
                        : ctx.has(2) ? ctx.in(2).size()
                                     : ctx.in(0).shape().at(1);
  if (ctx.has(2) && ctx.in(2).shape() != Shape{frame})
    fail("window has shape {}, expected [{}]", to_string(ctx.in(2).shape()), frame);
  allocated(ctx, 0, ctx.in(0).type(), stft_shape(ctx.node, ctx.in(0).shape(), step, frame));
  in_float(ctx, [step, frame](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape &x = c.in(0).shape(), &out = c.outputs[0].shape();
    const T* window = optional_data<T>(c, 2);
    const std::vector<Complex> roots = roots_of_unity(frame, -1);
    std::vector<Complex> signal(static_cast<size_t>(frame));
    T* y = c.outputs[0].data<T>();
    for (int64_t b = 0; b < out[0]; ++b) {
      for (int64_t f = 0; f < out[1]; ++f) {
        for (int64_t k = 0; k < frame; ++k) {
          const T* p = c.in(0).data<T>() + (b * x[1] + f * step + k) * x[2];
          const double w = window ? static_cast<double>(window[k]) : 1;
          signal[static_cast<size_t>(k)] = {w * static_cast<double>(p[0]), x[2] == 2 ? w * static_cast<double>(p[1]) : 0};
        }
        for (int64_t k = 0; k < out[2]; ++k) {
          const Complex v = coefficient(signal, roots, k);
          *y++ = static_cast<T>(v.re);
          *y++ = static_cast<T>(v.im);
        }
      }
    }
  });
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

void infer_mel(InferContext& c) {
  const auto bins = c.ints(0), length = c.ints(1);
  if (!bins || !length) return c.set_type(0, output_datatype(c.node));
  c.set(0, output_datatype(c.node), {length->at(0) / 2 + 1, bins->at(0)});
}

void run_mel(ComputeContext& c) {
  const int64_t bins = scalar_int(c.in(0), "num_mel_bins"), length = scalar_int(c.in(1), "dft_length");
  const double rate = static_cast<double>(scalar_int(c.in(2), "sample_rate"));
  const double low = c.in(3).to_doubles().at(0), high = c.in(4).to_doubles().at(0);
  if (bins < 1 || length < 1 || !(rate > 0))
    fail("num_mel_bins, dft_length and sample_rate are {}, {} and {}", bins, length, rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const int64_t rows = length / 2 + 1;
  // The band edges, equally spaced in mel, as rows of the spectrum.
  std::vector<int64_t> edges;
  const double first = mel(low), step = (mel(high) - first) / static_cast<double>(bins + 2);
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10.0, (first + static_cast<double>(k) * step) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate)));
  }
  std::vector<double> v(static_cast<size_t>(rows * bins), 0.0);
  for (int64_t k = 0; k < bins; ++k) {
    const int64_t left = edges[static_cast<size_t>(k)], peak = edges[static_cast<size_t>(k + 1)],
                  right = edges[static_cast<size_t>(k + 2)];
    const auto set = [&](int64_t row, double value) {
      if (row >= 0 && row < rows) v[static_cast<size_t>(row * bins + k)] = value;
    };
    if (peak == left) set(peak, 1);
    for (int64_t row = left; row <= peak && peak > left; ++row)
      set(row, static_cast<double>(row - left) / static_cast<double>(peak - left));
    for (int64_t row = peak; row < right; ++row) set(row, static_cast<double>(right - row) / static_cast<double>(right - peak));
  }
  store(v, c, {rows, bins});
}

}  // namespace

std::span<const OpRow> signal_ops() {
  static constexpr OpRow table[] = {
      {{"DFT", onnx_domain, infer_dft, run_dft}, {.half = Half::wide, .contracts = true}},
      {{"STFT", onnx_domain, infer_stft, run_stft}, {.half = Half::wide, .contracts = true}},
      {{"HannWindow", onnx_domain, infer_window, run_hann}, {.expands_on_gpu = true}},
      {{"HammingWindow", onnx_domain, infer_window, run_hamming}, {.expands_on_gpu = true}},
      {{"BlackmanWindow", onnx_domain, infer_window, run_blackman}, {.expands_on_gpu = true}},
      {{"MelWeightMatrix", onnx_domain, infer_mel, run_mel}, {.half = Half::wide}},
  };
  return table;
}

}  // namespace smelt::ops
