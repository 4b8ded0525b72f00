// Pooling over channels-last images: each output pixel gathers its window's pixels, all channels at once.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

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
      : p_(p),
        threads_(threads),
        from_(pixel_steps(x)),
        to_(pixel_steps(y)),
        whole_image_(p.window.kernel == spatial_of(p.x) && p.window.pad_begin == Shape{0, 0} && p.window.pad_end == Shape{0, 0}),
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
    const int64_t lines = p_.y[0] * p_.y[2], line = p_.y[3];
    parallel(threads_, lines, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < line; ++j) {
          pixel(x + i / p_.y[2] * from_[0], y + i / p_.y[2] * to_[0] + i % p_.y[2] * to_[1] + j * to_[2], i % p_.y[2], j);
        }
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

  void pixel(const float* image, float* to, int64_t y, int64_t x) const {
    int64_t taps = 0;
    Fold fold(*this, to);
    for_taps(p_, y, x, [&](int64_t at_y, int64_t at_x) {
      fold.add(image + at_y * from_[1] + at_x * from_[2]);
      ++taps;
    });
    const int64_t count = p_.kind == Kind::mean ? p_.window.kernel[0] * p_.window.kernel[1] : taps;
    fold.end(1.0f / static_cast<float>(count));
  }

  void split(const float* x, float* y, float* sums) const {
    const int64_t height = p_.x[2], width = p_.x[3];
    for (int64_t n = 0; n < p_.y[0]; ++n) {
      parallel_dynamic(threads_, threads_, [&](int64_t part, int) {
        Fold fold(*this, sums + part * padded_channels());
        for (int64_t i = height * part / threads_; i < height * (part + 1) / threads_; ++i) {
          for (int64_t j = 0; j < width; ++j) fold.add(x + n * from_[0] + i * from_[1] + j * from_[2]);
        }
        fold.end(1);
      });
      Fold fold(*this, y + n * to_[0]);
      for (int64_t t = 0; t < threads_; ++t) fold.add(sums + t * padded_channels());
      fold.end(1.0f / static_cast<float>(height * width));
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
  constexpr double bytes_per_us = 10e3;
  const double bytes = 4.0 * static_cast<double>(elements(p.y) * p.window.kernel[0] * p.window.kernel[1]);
  offer.candidates.push_back(
      {"cpu", "", 1 + bytes / bytes_per_us / machine.threads, [p, x = b.inputs[0], y = b.outputs[0], threads = machine.threads] {
         return std::make_unique<PoolKernel>(p, x, y, threads);
       }});
}

}  // namespace smelt::ops::pool
