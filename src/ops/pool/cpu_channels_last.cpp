// Pooling over channels-last images: each output pixel gathers its window's pixels, all channels at once.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pool/offer.h"
#include "ops/pool/simd/rows.h"

namespace smelt::ops::pool {
namespace {

class PoolKernel final : public Kernel {
 public:
  PoolKernel(const Problem& p, const BoundTensor& x, const BoundTensor& y, int threads)
      : p_(as_volume(p)),
        threads_(threads),
        from_(volume_steps(x)),
        to_(volume_steps(y)),
        whole_image_(p.window.kernel == spatial_of(p.x) && elements(spatial_of(p.y)) == 1 &&
                     std::ranges::all_of(p.window.pad_begin, [](int64_t n) { return n == 0; })),
        rows_(row_functions(p.x[1])) {}

  /// One large window: the threads share its rows, and their sums are added.
  bool splits_window() const { return p_.kind != Kind::max && whole_image_ && p_.y[0] < threads_; }

  int64_t workspace() const override {
    return splits_window() ? threads_ * padded_channels() * static_cast<int64_t>(sizeof(float)) : 0;
  }

  void run(const Buffers& b) override {
    const float* x = static_cast<const float*>(b.inputs[0]);
    float* y = static_cast<float*>(b.outputs[0]);
    if (splits_window()) return split(x, y, static_cast<float*>(b.workspace));
    // Lines along one axis only are shared out by pieces.
    const int64_t height = p_.y[3], lines = p_.y[0] * p_.y[2] * height, line = p_.y[4];
    const int64_t pieces = lines >= 4 * threads_ ? 1 : std::min<int64_t>(line, 4 * threads_), piece = divide_up(line, pieces);
    parallel(threads_, lines * pieces, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / pieces % height, plane = i / pieces / height % p_.y[2], n = i / pieces / height / p_.y[2];
        float* to = y + n * to_[0] + plane * to_[1] + row * to_[2];
        const int64_t first = i % pieces * piece, last = std::min(line, first + piece);
        for (int64_t j = first; j < last; ++j) pixel(x + n * from_[0], to + j * to_[3], plane, row, j);
      }
    });
  }

 private:
  int64_t padded_channels() const { return (p_.x[1] + 15) / 16 * 16; }

  /// Folds pixels into `to`, in their order.
  class Fold {
   public:
    Fold(const PoolKernel& kernel, float* to) : kernel_(kernel), to_(to) {}
    void add(const float* pixel) {
      if (held_ == most) {
        fold(1);
        pixels_[0] = to_, held_ = 1;  // the result so far is the first
      }
      pixels_[held_++] = pixel;
    }
    /// `factor`: of sums.
    void end(float factor) {
      if (held_ > 0) return fold(factor);
      std::fill_n(to_, kernel_.p_.x[1], 0.0f);  // a thread's part of no rows
    }

   private:
    void fold(float factor) const {
      const RowFunctions& rows = kernel_.rows_;
      const int64_t channels = kernel_.p_.x[1];
      if (kernel_.p_.kind == Kind::max)
        rows.largest(to_, pixels_, held_, channels);
      else
        rows.scaled_sum(to_, pixels_, held_, factor, channels);
    }

    static constexpr int64_t most = 32;  // at once
    const PoolKernel& kernel_;
    float* to_;
    const float* pixels_[most];
    int64_t held_ = 0;
  };

  void pixel(const float* image, float* to, int64_t z, int64_t y, int64_t x) const {
    int64_t taps = 0;
    Fold fold(*this, to);
    for_volume_taps(p_, z, y, x, [&](int64_t at_z, int64_t at_y, int64_t at_x) {
      fold.add(image + at_z * from_[1] + at_y * from_[2] + at_x * from_[3]);
      ++taps;
    });
    const int64_t count = p_.kind == Kind::mean ? elements(p_.window.kernel) : taps;
    fold.end(1.0f / static_cast<float>(count));
  }

  void split(const float* x, float* y, float* sums) const {
    const int64_t planes = p_.x[2], height = p_.x[3], width = p_.x[4], lines = planes * height;
    for (int64_t n = 0; n < p_.y[0]; ++n) {
      parallel_dynamic(threads_, threads_, [&](int64_t part, int) {
        Fold fold(*this, sums + part * padded_channels());
        for (int64_t i = lines * part / threads_; i < lines * (part + 1) / threads_; ++i) {
          const float* row = x + n * from_[0] + i / height * from_[1] + i % height * from_[2];
          for (int64_t j = 0; j < width; ++j) fold.add(row + j * from_[3]);
        }
        fold.end(1);
      });
      Fold fold(*this, y + n * to_[0]);
      for (int64_t t = 0; t < threads_; ++t) fold.add(sums + t * padded_channels());
      fold.end(1.0f / static_cast<float>(lines * width));
    }
  }

  Problem p_;
  int threads_;
  Shape from_, to_;
  bool whole_image_;  // the window is the image
  const RowFunctions& rows_;
};

}  // namespace

const RowFunctions& row_functions(int64_t channels) {
  constexpr int64_t wide = 16;  // channels that do not fill a register are taken one by one
  if (simd::widest() == simd::Isa::avx512 && (channels % wide == 0 || channels > 4 * wide)) return avx512::pool_rows();
  return simd::best() == simd::Isa::avx2 ? avx2::pool_rows() : base::pool_rows();
}

void offer_channels_last(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer) {
  constexpr double bytes_per_us = 10e3, pixel_us = 8e-3;  // pixel_us: to begin one, and to find its window's
  const double pixels = static_cast<double>(elements(p.y) / p.x[1]), window = static_cast<double>(elements(p.window.kernel));
  const double us = pixels * (pixel_us + 4.0 * window * static_cast<double>(p.x[1]) / bytes_per_us);
  offer.candidates.push_back(
      {"cpu", "", 1 + us / machine.threads, [p, x = b.inputs[0], y = b.outputs[0], threads = machine.threads] {
         return std::make_unique<PoolKernel>(p, x, y, threads);
       }});
}

}  // namespace smelt::ops::pool
