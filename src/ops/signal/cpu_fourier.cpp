// DFT and STFT by fast transforms. Registers hold the same element of several lines or frames, so that a pass is the same few
// instructions whatever the radix; frames are cut out of the signal and windowed as they are read.
#include <array>
#include <cmath>

#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/signal/fft_plan.h"
#include "ops/signal/offer.h"
#include "ops/signal/problem.h"

namespace smelt::ops {
namespace {

template <class T> class FourierKernel final : public Kernel {
 public:
  FourierKernel(const FourierProblem& p, int threads)
      : lines_(p.lines), count_(p.count()), element_(bits(p.type) / 8), windowed_(p.windowed), plan_(p.values()) {
    t_.fft = plan_.table();
    t_.form = p.form();
    t_.inverse = p.inverse;
    t_.length = p.length;
    t_.read = p.read;
    t_.written = p.written;
    t_.parts_in = p.parts_in;
    t_.parts_out = p.parts_out;
    t_.step_in = p.step_in;
    t_.step_out = p.step_out;
    if constexpr (std::is_same_v<T, float>) t_.kind = required_float_kind(p.type);
    t_.scale = static_cast<T>(p.scale());
    if (t_.form == LineForm::real || t_.form == LineForm::half) half_turn_ = roots_of_unity<T>(p.length, p.length / 4 + 1);
    t_.half_turn = half_turn_.data();
    t_.registers = 2 * std::max({plan_.values(), p.length / 2 + 1, p.written});
    if (p.window.valid()) {
      window_.resize(static_cast<size_t>(p.length));
      scale_window(p.window.raw(), window_.data());
      t_.window = window_.data();
    }
    groups_ = (count_ + lanes() - 1) / lanes();
    threads_ = useful_threads(static_cast<int>(std::min<int64_t>(threads, groups_)), groups_ * plan_.work());
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
        const int64_t first = g * lanes(), count = std::min(lanes(), count_ - first);
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

  FourierLines lines_;
  int64_t count_, element_, groups_ = 0;
  int threads_ = 1;
  bool windowed_;
  FftPlan<T> plan_;
  LineTransform<T> t_;
  std::vector<T> half_turn_, window_;
};

}  // namespace

void offer_fourier_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<FourierProblem> p = fourier_problem(b);
  if (!p) return offer.refuse("cpu", p.refusal());
  const double length = static_cast<double>(p->length), count = static_cast<double>(p->count());
  // Values times halvings of the length: 0.9 to 1.3e4 measured on a core with AVX2, frames of 400 and 512.
  constexpr double values_per_us = 1e4;
  offer.candidates.push_back({"cpu", "", 1 + count * length * std::log2(2 * length) / values_per_us / machine.threads,
                              [problem = *p, threads = machine.threads]() -> std::unique_ptr<Kernel> {
                                if (problem.type == DType::f64) return std::make_unique<FourierKernel<double>>(problem, threads);
                                return std::make_unique<FourierKernel<float>>(problem, threads);
                              }});
}

}  // namespace smelt::ops
