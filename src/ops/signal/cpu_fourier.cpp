// DFT and STFT by fast transforms. Registers hold the same element of several lines or frames, so that a pass is the same few
// instructions whatever the radix; frames are cut out of the signal and windowed as they are read.
#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/signal/fft_plan.h"
#include "ops/signal/fourier.h"
#include "ops/signal/offer.h"

namespace smelt::ops {
namespace {

/// Two axes of lines, with numbers from one to the next.
struct Lines {
  int64_t outer = 1, inner = 1;
  int64_t from_outer = 0, from_inner = 0, to_outer = 0, to_inner = 0;
};

struct Problem {
  Lines lines;
  DType type = DType::f32;
  bool inverse = false, half = false;  // of a half spectrum
  int64_t length = 1, read = 0, written = 0;
  int64_t parts_in = 1, parts_out = 2, step_in = 1, step_out = 2;
  bool windowed = false;
  Tensor window;  // where it is constant
};

LineForm form_of(const Problem& p) {
  const bool even = p.length % 2 == 0;
  if (p.half) return even ? LineForm::half : LineForm::odd_half;
  return p.parts_in == 1 && even ? LineForm::real : LineForm::complex;
}

template <class T> class FourierKernel final : public Kernel {
 public:
  FourierKernel(const Problem& p, int threads)
      : lines_(p.lines),
        element_(bits(p.type) / 8),
        windowed_(p.windowed),
        plan_(form_of(p) == LineForm::real || form_of(p) == LineForm::half ? p.length / 2 : p.length) {
    t_.fft = plan_.table();
    t_.form = form_of(p);
    t_.inverse = p.inverse;
    t_.length = p.length;
    t_.read = std::min(p.read, p.half ? p.length / 2 + 1 : p.length);
    t_.written = p.written;
    t_.parts_in = p.parts_in;
    t_.parts_out = p.parts_out;
    t_.step_in = p.step_in;
    t_.step_out = p.step_out;
    if constexpr (std::is_same_v<T, float>) t_.kind = required_float_kind(p.type);
    // The spectrum of a real signal is found as twice itself.
    t_.scale = static_cast<T>((p.inverse ? 1 / static_cast<double>(p.length) : 1) * (t_.form == LineForm::real ? 0.5 : 1));
    if (t_.form == LineForm::real || t_.form == LineForm::half) half_turn_ = roots_of_unity<T>(p.length, p.length / 4 + 1);
    t_.half_turn = half_turn_.data();
    t_.registers = 2 * std::max({plan_.values(), p.length / 2 + 1, p.written});
    if (p.window.valid()) {
      window_.resize(static_cast<size_t>(p.length));
      scale_window(p.window.raw(), window_.data());
      t_.window = window_.data();
    }
    const int64_t count = lines_.outer * lines_.inner;
    groups_ = (count + lanes() - 1) / lanes();
    threads_ = useful_threads(threads, groups_ * plan_.work());
  }

  int64_t workspace() const override { return threads_ * thread_bytes() + (windowed_ ? aligned(t_.length * bytes_each) : 0); }
  bool reads(size_t i) const override { return i == 0 || (i == 2 && windowed_ && window_.empty()); }

  void run(const Buffers& b) override {
    LineTransform<T> t = t_;
    auto* scratch = static_cast<char*>(b.workspace);
    if (windowed_ && window_.empty()) {
      auto* window = reinterpret_cast<T*>(scratch + threads_ * thread_bytes());
      scale_window(b.inputs[2], window);
      t.window = window;
    }
    parallel(threads_, groups_, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* buffers = reinterpret_cast<T*>(scratch + thread * thread_bytes());
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * lanes(), count = std::min(lanes(), lines_.outer * lines_.inner - first);
        std::array<const void*, most_lanes> from{};
        std::array<void*, most_lanes> to{};
        for (int64_t l = 0; l < count; ++l) {
          const int64_t o = (first + l) / lines_.inner, i = (first + l) % lines_.inner;
          from[static_cast<size_t>(l)] =
              static_cast<const char*>(b.inputs[0]) + (o * lines_.from_outer + i * lines_.from_inner) * element_;
          to[static_cast<size_t>(l)] = static_cast<char*>(b.outputs[0]) + (o * lines_.to_outer + i * lines_.to_inner) * element_;
        }
        if constexpr (std::is_same_v<T, float>)
          fourier_simd().transform_floats(t, from.data(), to.data(), count, buffers);
        else
          fourier_simd().transform_doubles(t, from.data(), to.data(), count, buffers);
      }
    });
  }

 private:
  static constexpr size_t most_lanes = 16;
  static constexpr int64_t bytes_each = sizeof(T);

  static int64_t lanes() { return std::is_same_v<T, float> ? fourier_simd().floats : fourier_simd().doubles; }
  int64_t thread_bytes() const { return aligned(2 * t_.registers * lanes() * bytes_each); }

  /// In T, times the scale of the form.
  void scale_window(const void* from, T* to) const {
    if constexpr (std::is_same_v<T, float>)
      row_simd().load(t_.kind, from, nullptr, nullptr, to, t_.length);
    else
      std::copy_n(static_cast<const T*>(from), t_.length, to);
    for (int64_t i = 0; i < t_.length; ++i) to[i] *= t_.scale;
  }

  Lines lines_;
  int64_t element_, groups_ = 0;
  int threads_ = 1;
  bool windowed_;
  FftPlan<T> plan_;
  LineTransform<T> t_;
  std::vector<T> half_turn_, window_;
};

/// An integer input that is known; nothing where it is left out.
Result<std::optional<int64_t>> known(const BoundNode& b, size_t i, const char* what) {
  if (!b.has(i)) return std::optional<int64_t>();
  if (!b.constant(i)) return refuse(Reason::not_constant, "{} is computed", what);
  return std::optional(b.constant(i)->to_ints().at(0));
}

Result<Problem> dft_problem(const BoundNode& b) {
  const auto length = known(b, 1, "dft_length"), axis = known(b, 2, "axis");
  if (!length) return length.refusal();
  if (!axis) return axis.refusal();
  const Shape& x = b.inputs[0].shape;
  const Dft d = dft_of(*b.node, x, *length, *axis);
  const AxisView in = around_axis(x, d.axis), out = around_axis(d.y, d.axis);
  Problem p{.type = b.inputs[0].type, .inverse = d.inverse, .half = d.inverse && d.onesided, .window = {}};
  p.length = d.length;
  p.read = in.extent;
  p.written = out.extent;
  p.parts_in = x.back();
  p.parts_out = d.y.back();
  p.step_in = in.inner;
  p.step_out = out.inner;
  p.lines = {in.outer, in.inner / p.parts_in, in.extent * in.inner, p.parts_in, out.extent * out.inner, p.parts_out};
  return p;
}

Result<Problem> stft_problem(const BoundNode& b) {
  const auto step = known(b, 1, "frame_step"), frame = known(b, 3, "frame_length");
  if (!step) return step.refusal();
  if (!frame) return frame.refusal();
  const Stft s = stft_of(*b.node, b.inputs[0].shape, step->value_or(0), b.has(2) ? &b.inputs[2].shape : nullptr, *frame);
  Problem p{.type = b.inputs[0].type, .length = s.frame, .read = s.frame, .written = s.y[2], .window = {}};
  p.parts_in = p.step_in = s.parts;
  p.windowed = b.has(2);
  if (b.constant(2)) p.window = *b.constant(2);
  p.lines = {s.batch, s.y[1], s.samples * s.parts, s.step * s.parts, s.y[1] * s.y[2] * 2, s.y[2] * 2};
  return p;
}

}  // namespace

void offer_fourier_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const DType type = b.inputs[0].type;
  if (!float_kind(type) && type != DType::f64) return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (b.has(2) && b.node->is("STFT") && b.inputs[2].type != type)
    return offer.refuse("cpu", Reason::wrong_type, "a window of {} over {}", name(b.inputs[2].type), name(type));
  const Result<Problem> p = b.node->is("DFT") ? dft_problem(b) : stft_problem(b);
  if (!p) return offer.refuse("cpu", p.refusal());
  const double length = static_cast<double>(p->length), count = static_cast<double>(p->lines.outer * p->lines.inner);
  constexpr double values_per_us = 4e3;  // and halvings of the length, measured with registers of 8
  offer.candidates.push_back({"cpu", "", 1 + count * length * std::log2(2 * length) / values_per_us / machine.threads,
                              [problem = *p, threads = machine.threads]() -> std::unique_ptr<Kernel> {
                                if (problem.type == DType::f64) return std::make_unique<FourierKernel<double>>(problem, threads);
                                return std::make_unique<FourierKernel<float>>(problem, threads);
                              }});
}

}  // namespace smelt::ops
