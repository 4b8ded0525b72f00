// Pooling of channels-last images of f16 and bf16: the maximum and the mean, in f32, of a slice of channels at a time.
#include "ops/core/channels_last.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/offer.h"
#include "ops/pool/simd/rows.h"

namespace smelt::ops::pool {
namespace {

class PoolOfHalves final : public Kernel {
 public:
  PoolOfHalves(const Problem& p, const BoundTensor& x, const BoundTensor& y, int threads)
      : p_(p),
        type_(required_float_kind(x.type)),
        threads_(useful_threads(threads, elements(p.y) * p.window.kernel[0] * p.window.kernel[1])),
        from_(pixel_steps(x)),
        to_(pixel_steps(y)) {}

  /// A sum and a widened pixel for each thread.
  int64_t workspace() const override { return threads_ * 2 * slice * static_cast<int64_t>(sizeof(float)); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const uint16_t*>(b.inputs[0]);
    auto* y = static_cast<uint16_t*>(b.outputs[0]);
    const int64_t channels = p_.x[1], slices = (channels + slice - 1) / slice;
    parallel(threads_, p_.y[0] * p_.y[2] * slices, 1, [&](int64_t begin, int64_t end, int thread) {
      float* row = static_cast<float*>(b.workspace) + thread * 2 * slice;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % slices * slice, line = i / slices % p_.y[2], n = i / slices / p_.y[2];
        for (int64_t j = 0; j < p_.y[3]; ++j)
          pixel(x + n * from_[0] + first, y + n * to_[0] + line * to_[1] + j * to_[2] + first, line, j,
                std::min(slice, channels - first), row);
      }
    });
  }

 private:
  static constexpr int64_t slice = 256;  // channels: both rows stay in the first-level cache

  void pixel(const uint16_t* image, uint16_t* to, int64_t y, int64_t x, int64_t channels, float* row) const {
    int64_t taps = 0;
    for_taps(p_, y, x, [&](int64_t at_y, int64_t at_x) {
      const uint16_t* from = image + at_y * from_[1] + at_x * from_[2];
      row_simd().load(type_, from, nullptr, nullptr, taps == 0 ? row : row + slice, channels);
      if (taps++ > 0) folds().f32.lines(p_.kind == Kind::max ? Fold::max : Fold::sum, row, row + slice, 0, 1, channels);
    });
    if (p_.kind != Kind::max) {
      const int64_t count = p_.kind == Kind::mean ? p_.window.kernel[0] * p_.window.kernel[1] : taps;
      row_functions(channels).scale(row, 1.0f / static_cast<float>(count), channels);
    }
    row_simd().scale(type_, row, nullptr, nullptr, to, channels);
  }

  Problem p_;
  FloatKind type_;
  int threads_;
  Shape from_, to_;
};

}  // namespace

void offer_halves(const BoundNode& node, const Problem& p, const Machine& machine, Offer& offer) {
  constexpr double bytes_per_us = 5e3;
  const double bytes = 2.0 * static_cast<double>(elements(p.y) * p.window.kernel[0] * p.window.kernel[1]);
  offer.candidates.push_back({"cpu", "", 1 + bytes / bytes_per_us / machine.threads,
                              [p, x = node.inputs[0], y = node.outputs[0], threads = machine.threads] {
                                return std::make_unique<PoolOfHalves>(p, x, y, threads);
                              }});
}

}  // namespace smelt::ops::pool
