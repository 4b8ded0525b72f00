// DFT and STFT by their definition: sums, with the roots of unity in a table.
#include "ops/signal/fourier.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/value_of.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/signal/family.h"

namespace smelt::ops {

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

Stft stft_of(const Node& node, const Shape& x, int64_t step, const Shape* window, std::optional<int64_t> frame_length) {
  // ONNX asks for the last axis; ONNX Runtime takes real signals without it, and exporters leave it out.
  if (x.size() != 2 && (x.size() != 3 || (x[2] != 1 && x[2] != 2)))
    fail("the signal has shape {}, expected [batch, length] or [batch, length, 1 or 2]", to_string(x));
  if (window && window->size() != 1) fail("window has shape {}, expected one axis", to_string(*window));
  Stft s{.batch = x[0], .samples = x[1], .parts = x.size() == 3 ? x[2] : 1, .step = step, .y = {}};
  s.frame = frame_length ? *frame_length : window ? window->at(0) : s.samples;
  if (window && window->at(0) != s.frame) fail("window has shape {}, expected [{}]", to_string(*window), s.frame);
  if (step < 1 || s.frame < 1 || s.frame > s.samples)
    fail("frame_step {} and frame_length {} do not fit a signal of {}", step, s.frame, s.samples);
  const bool onesided = node.get_int("onesided", 1) != 0;
  if (onesided && s.parts == 2) fail("a complex signal has no one-sided transform; set onesided to 0");
  s.y = {s.batch, (s.samples - s.frame) / step + 1, onesided ? s.frame / 2 + 1 : s.frame, 2};
  return s;
}

namespace {

struct Complex {
  double re = 0, im = 0;
};

/// e^(sign * 2 pi i k / n) for k < n.
std::vector<Complex> roots_of_unity(int64_t n, int sign) {
  std::vector<Complex> out(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
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

std::optional<int64_t> given(const ComputeContext& c, size_t i, const char* what) {
  if (!c.has(i)) return std::nullopt;
  const Tensor& t = c.in(i);
  if (t.size() != 1) fail("{} has shape {}, expected one element", what, to_string(t.shape()));
  return t.to_ints()[0];
}

std::optional<int64_t> given(const InferContext& c, size_t i, const char* what) {
  if (!c.has(i)) return std::nullopt;
  const auto values = c.ints(i);
  if (values && values->size() != 1) fail("{} has {} elements, expected one", what, values->size());
  return values ? std::optional((*values)[0]) : std::nullopt;
}

/// An input whose value is not known before the run.
bool unknown(const InferContext& c, size_t i) { return c.has(i) && !c.ints(i); }

void infer_dft(InferContext& c) {
  if (unknown(c, 1) || unknown(c, 2)) return c.set_type(0, type_of(c, 0));
  c.set(0, type_of(c, 0), dft_of(c.node, c.shape(0), given(c, 1, "dft_length"), given(c, 2, "axis")).y);
}

void run_dft(ComputeContext& ctx) {
  const Dft d = dft_of(ctx.node, ctx.in(0).shape(), given(ctx, 1, "dft_length"), given(ctx, 2, "axis"));
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

void infer_stft(InferContext& c) {
  if (!c.has(1)) fail("frame_step is missing");
  if (unknown(c, 1) || unknown(c, 3)) return c.set_type(0, type_of(c, 0));
  const Shape* window = c.has(2) ? &c.shape(2) : nullptr;
  c.set(0, type_of(c, 0),
        stft_of(c.node, c.shape(0), value_of(given(c, 1, "frame_step"), "frame_step"), window, given(c, 3, "frame_length")).y);
}

void run_stft(ComputeContext& ctx) {
  const Shape* window_shape = ctx.has(2) ? &ctx.in(2).shape() : nullptr;
  const Stft s = stft_of(ctx.node, ctx.in(0).shape(), value_of(given(ctx, 1, "frame_step"), "frame_step"), window_shape,
                         given(ctx, 3, "frame_length"));
  allocated(ctx, 0, ctx.in(0).type(), s.y);
  in_float(ctx, [&s](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const T* window = optional_data<T>(c, 2);
    const std::vector<Complex> roots = roots_of_unity(s.frame, -1);
    std::vector<Complex> signal(static_cast<size_t>(s.frame));
    T* y = c.outputs[0].data<T>();
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t f = 0; f < s.y[1]; ++f) {
        for (int64_t k = 0; k < s.frame; ++k) {
          const T* p = c.in(0).data<T>() + (b * s.samples + f * s.step + k) * s.parts;
          const double w = window ? static_cast<double>(window[k]) : 1;
          signal[static_cast<size_t>(k)] = {w * static_cast<double>(p[0]), s.parts == 2 ? w * static_cast<double>(p[1]) : 0};
        }
        for (int64_t k = 0; k < s.y[2]; ++k) {
          const Complex v = coefficient(signal, roots, k);
          *y++ = static_cast<T>(v.re);
          *y++ = static_cast<T>(v.im);
        }
      }
    }
  });
}

}  // namespace

std::span<const OpRow> fourier_ops() {
  static constexpr OpRow table[] = {
      {{"DFT", onnx_domain, infer_dft, run_dft}, {.autocast = Autocast::fp32, .contracts = true}},
      {{"STFT", onnx_domain, infer_stft, run_stft}, {.autocast = Autocast::fp32, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
