#include "ops/pool/cpu_int8.h"

#include <cstring>

#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::pool {
namespace {

class MaxOfBytes final : public Kernel {
 public:
  MaxOfBytes(const Problem& p, const BoundTensor& x, const BoundTensor& y, int threads)
      : p_(p),
        threads_(useful_threads(threads, elements(p.y) * p.window.kernel[0] * p.window.kernel[1] / 8)),
        from_(pixel_steps(x)),
        to_(pixel_steps(y)),
        max_(x.type == DType::i8 ? avx2::integer_rows().max_i8 : avx2::integer_rows().max_u8) {}

  void run(const Buffers& b) override {
    const uint8_t* x = static_cast<const uint8_t*>(b.inputs[0]);
    uint8_t* y = static_cast<uint8_t*>(b.outputs[0]);
    parallel(threads_, p_.y[0] * p_.y[2], 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / p_.y[2], row = i % p_.y[2];
        for (int64_t j = 0; j < p_.y[3]; ++j) pixel(x + n * from_[0], y + n * to_[0] + row * to_[1] + j * to_[2], row, j);
      }
    });
  }

 private:
  void pixel(const uint8_t* image, uint8_t* to, int64_t y, int64_t x) const {
    bool first = true;
    for_taps(p_, y, x, [&](int64_t at_y, int64_t at_x) {
      const uint8_t* from = image + at_y * from_[1] + at_x * from_[2];
      if (first)
        std::memcpy(to, from, static_cast<size_t>(p_.x[1]));
      else
        max_(to, from, p_.x[1]);
      first = false;
    });
  }

  Problem p_;
  int threads_;
  Shape from_, to_;
  void (*max_)(uint8_t*, const uint8_t*, int64_t);
};

/// y = (sum - zero · pixels) · scale / pixels: the dequantized values' mean, but for f32's rounding of each. Channels are split
/// over the threads.
class MeanOfBytes final : public Kernel {
 public:
  MeanOfBytes(const Problem& p, const BoundTensor& x, const BoundTensor& y, int threads)
      : p_(p),
        threads_(useful_threads(threads, elements(p.x) / 4)),
        from_(pixel_steps(x)),
        to_(memory_strides(y)[0]),
        add_(x.type == DType::i8 ? avx2::integer_rows().add_i8 : avx2::integer_rows().add_u8) {}

  int64_t workspace() const override { return padded() * static_cast<int64_t>(sizeof(int32_t)); }

  void run(const Buffers& b) override {
    const uint8_t* x = static_cast<const uint8_t*>(b.inputs[0]);
    float* y = static_cast<float*>(b.outputs[0]);
    int32_t* sums = static_cast<int32_t*>(b.workspace);
    const int64_t height = p_.x[2], width = p_.x[3], pixels = height * width;
    const integer::DequantizeStep& step = value_of(p_.dequantized, "how the mean of bytes is dequantized");
    const float zero = static_cast<float>(step.zero), scale = step.scale, count = static_cast<float>(pixels);
    for (int64_t n = 0; n < p_.x[0]; ++n) {
      parallel(threads_, p_.x[1], 64, [&](int64_t begin, int64_t end, int) {
        std::fill(sums + begin, sums + end, 0);
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j)
            add_(sums + begin, x + n * from_[0] + i * from_[1] + j * from_[2] + begin, end - begin);
        for (int64_t c = begin; c < end; ++c) y[n * to_ + c] = (static_cast<float>(sums[c]) / count - zero) * scale;
      });
    }
  }

 private:
  int64_t padded() const { return (p_.x[1] + 63) / 64 * 64; }

  Problem p_;
  int threads_;
  Shape from_;
  int64_t to_;
  void (*add_)(int32_t*, const uint8_t*, int64_t);
};

}  // namespace

std::optional<Refusal> offer_integer(const BoundNode& node, const Problem& p, const Machine& machine, Offer& offer) {
  const BoundTensor &x = node.inputs[0], &y = node.outputs[0];
  if (simd::best() != simd::Isa::avx2) return refuse(Reason::wrong_machine, "this CPU has no AVX2");
  constexpr double bytes_per_us = 20e3;
  if (p.kind == Kind::max && y.type == x.type) {
    constexpr double pixel_us = 60e-3;  // to begin one: of 3 by 3 windows over one channel, measured
    const double pixels = static_cast<double>(elements(p.y) / p.x[1]);
    const double bytes = static_cast<double>(elements(p.y) * p.window.kernel[0] * p.window.kernel[1]);
    offer.candidates.push_back({"cpu", "bytes", 1 + (pixels * pixel_us + bytes / bytes_per_us) / machine.threads,
                                [p, x, y, threads = machine.threads] { return std::make_unique<MaxOfBytes>(p, x, y, threads); }});
    return std::nullopt;
  }
  const bool whole_image = p.window.kernel == spatial_of(p.x) && p.y[2] == 1 && p.y[3] == 1;
  if (p.kind == Kind::mean_inside && p.dequantized && whole_image && y.type == DType::f32 &&
      p.x[2] * p.x[3] < (int64_t{1} << 23)) {
    offer.candidates.push_back(
        {"cpu", "bytes", 1 + static_cast<double>(elements(p.x)) / bytes_per_us / machine.threads,
         [p, x, y, threads = machine.threads] { return std::make_unique<MeanOfBytes>(p, x, y, threads); }});
    return std::nullopt;
  }
  return refuse(Reason::unsupported, "bytes: it knows the maximum, and the mean over an image of what a program dequantizes");
}

}  // namespace smelt::ops::pool
