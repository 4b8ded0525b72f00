// Pooling of channels-last images of f16 and bf16: the maximum and the mean, in f32, of a slice of channels at a time.
#include <array>

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
      : p_(as_volume(p)),
        type_(required_float_kind(x.type)),
        threads_(useful_threads(threads, elements(p.y) * elements(p.window.kernel))),
        from_(volume_steps(x)),
        to_(volume_steps(y)) {}

  /// A sum and a widened pixel for each thread.
  int64_t workspace() const override { return threads_ * 2 * slice * static_cast<int64_t>(sizeof(float)); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const uint16_t*>(b.inputs[0]);
    auto* y = static_cast<uint16_t*>(b.outputs[0]);
    const int64_t channels = p_.x[1], slices = (channels + slice - 1) / slice;
    const int64_t planes = p_.y[2], height = p_.y[3];
    parallel(threads_, p_.y[0] * planes * height * slices, 1, [&](int64_t begin, int64_t end, int thread) {
      float* row = static_cast<float*>(b.workspace) + thread * 2 * slice;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % slices * slice, line = i / slices % height;
        const int64_t plane = i / slices / height % planes, n = i / slices / height / planes;
        uint16_t* to = y + n * to_[0] + plane * to_[1] + line * to_[2] + first;
        for (int64_t j = 0; j < p_.y[4]; ++j)
          pixel(x + n * from_[0] + first, to + j * to_[3], {plane, line, j}, std::min(slice, channels - first), row);
      }
    });
  }

 private:
  static constexpr int64_t slice = 256;  // channels: both rows stay in the first-level cache

  void pixel(const uint16_t* image, uint16_t* to, std::array<int64_t, 3> place, int64_t channels, float* row) const {
    int64_t taps = 0;
    for_volume_taps(p_, place[0], place[1], place[2], [&](int64_t at_z, int64_t at_y, int64_t at_x) {
      const uint16_t* from = image + at_z * from_[1] + at_y * from_[2] + at_x * from_[3];
      row_simd().load(type_, from, nullptr, nullptr, taps == 0 ? row : row + slice, channels);
      if (taps++ > 0) folds().f32.lines(p_.kind == Kind::max ? Fold::max : Fold::sum, row, row + slice, 0, 1, channels);
    });
    if (p_.kind != Kind::max) {
      const int64_t count = p_.kind == Kind::mean ? elements(p_.window.kernel) : taps;
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
  constexpr double bytes_per_us = 5e3, tap_us = 8e-3;  // tap_us: to begin one
  const double taps = static_cast<double>(elements(p.y) / p.x[1] * elements(p.window.kernel));
  const double us = taps * (tap_us + 2.0 * static_cast<double>(p.x[1]) / bytes_per_us);
  offer.candidates.push_back(
      {"cpu", "", 1 + us / machine.threads, [p, x = node.inputs[0], y = node.outputs[0], threads = machine.threads] {
         return std::make_unique<PoolOfHalves>(p, x, y, threads);
       }});
}

}  // namespace smelt::ops::pool
