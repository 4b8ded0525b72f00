#include "ops/pool/cpu_int8.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
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
        lowest_(x.type == DType::i8 ? uint8_t{0x80} : uint8_t{0}),
        lines_(from_[2] == p.x[1] && to_[2] == p.x[1]),
        max_(x.type == DType::i8 ? avx2::integer_rows().max_i8 : avx2::integer_rows().max_u8) {}

  int64_t workspace() const override { return lines_ ? threads_ * line_bytes() : 0; }

  void run(const Buffers& b) override {
    const uint8_t* x = static_cast<const uint8_t*>(b.inputs[0]);
    uint8_t* y = static_cast<uint8_t*>(b.outputs[0]);
    parallel(threads_, p_.y[0] * p_.y[2], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / p_.y[2], row = i % p_.y[2];
        if (lines_) {
          line(x + n * from_[0], y + n * to_[0] + row * to_[1], row, static_cast<uint8_t*>(b.workspace) + thread * line_bytes());
          continue;
        }
        for (int64_t j = 0; j < p_.y[3]; ++j) pixel(x + n * from_[0], y + n * to_[0] + row * to_[1] + j * to_[2], row, j);
      }
    });
  }

 private:
  int64_t line_bytes() const { return aligned(p_.x[3] * p_.x[1]); }

  /// A line of the result whose pixels lie side by side, as the image's do: the lines of its windows become one, and of that one each column of
  /// a window is a line for all of them.
  void line(const uint8_t* image, uint8_t* to, int64_t row, uint8_t* folded) const {
    const Window& w = p_.window;
    const int64_t c = p_.x[1], width = p_.x[3], stride = w.stride[1];
    bool first = true;
    for (int64_t k = 0; k < w.kernel[0]; ++k) {
      const int64_t at = row * w.stride[0] - w.pad_begin[0] + k * w.dilation[0];
      if (at < 0 || at >= p_.x[2]) continue;
      if (first)
        std::memcpy(folded, image + at * from_[1], static_cast<size_t>(width * c));
      else
        max_(folded, image + at * from_[1], width * c);
      first = false;
    }
    std::memset(to, lowest_, static_cast<size_t>(p_.y[3] * c));
    for (int64_t k = 0; k < w.kernel[1]; ++k) {
      const int64_t offset = k * w.dilation[1] - w.pad_begin[1];  // of the tap, from its place times the stride
      const int64_t begin = offset >= 0 ? 0 : divide_up(-offset, stride);
      const int64_t end = offset >= width ? 0 : std::min(p_.y[3], (width - 1 - offset) / stride + 1);
      if (stride == 1 && begin < end) max_(to + begin * c, folded + (begin + offset) * c, (end - begin) * c);
      for (int64_t j = begin; j < end && stride > 1; ++j) max_(to + j * c, folded + (j * stride + offset) * c, c);
    }
  }

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
  uint8_t lowest_;
  bool lines_;
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
