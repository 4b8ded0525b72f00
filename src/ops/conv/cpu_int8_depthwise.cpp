// Depthwise convolution of 8-bit integers: one channel a group, of which one or several outputs are made, one of each at a time; taps read
// where they lie, 16 channels at a time.
#include <fmt/core.h>

#include <algorithm>

#include "base/number.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t lanes = 16;
constexpr int64_t sums_in_cache = 4096;  // of several pixels, before they are requantized

class Int8Depthwise final : public Kernel {
 public:
  explicit Int8Depthwise(const Request& q)
      : p_(q.problem),
        threads_(useful_threads(q.threads, truncated(q.problem.flops() / 64))),
        x_(q.node.inputs[q.at.x]),
        x_input_(q.at.x),
        steps_(memory_strides(x_)),
        blocks_((p_.group + lanes - 1) / lanes),
        each_(p_.y[1] / p_.group),
        taps_(p_.w[2] * p_.w[3]),
        pairs_((taps_ + 1) / 2),
        pixels_(std::clamp<int64_t>(sums_in_cache / (blocks_ * lanes * each_), 1, 16)),
        start_(start_of_sums(q)),
        zero_(q),
        weights_(sums_of_weights(q)),
        epilogue_(q.node, q.at.operands, 1, q.quantization().scales),
        less_zero_(static_cast<size_t>(each_ * blocks_ * lanes)),
        outside_(static_cast<size_t>(blocks_ * lanes)) {
    for (int64_t y = 0; y < p_.w[2]; ++y)
      for (int64_t x = 0; x < p_.w[3]; ++x) offsets_.push_back(y * p_.dilation[0] * steps_[2] + x * p_.dilation[1] * steps_[3]);
    if (taps_ % 2 == 1) offsets_.push_back(offsets_[0]);  // its weight is 0
    const auto make = [&] { return pack(q); };
    packed_ = q.node.weights ? q.node.weights->packed(q.weight().constant, int8_packing(q, "depthwise").text(), make) : make();
  }

  int64_t workspace() const override { return threads_ * thread_bytes(); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    const uint8_t* image = static_cast<const uint8_t*>(b.inputs[x_input_]);
    char* memory = static_cast<char*>(b.workspace);
    // Σ (x - zero) · w = Σ x · w - zero · Σ w; taps outside the image read the zero point.
    const int32_t zero = zero_.of(b);
    for (int64_t j = 0; j < each_; ++j)
      for (int64_t c = 0; c < p_.group; ++c) {
        const auto from = static_cast<size_t>(c * each_ + j);
        less_zero_[static_cast<size_t>(j * blocks_ * lanes + c)] = start_[from] - zero * weights_[from];
      }
    std::ranges::fill(outside_, static_cast<uint8_t>(zero));
    // The evaluator's scratch of all threads first, then each thread's pointers and sums.
    const CpuEpilogue::Runner finish(epilogue_, b, memory);
    char* own = memory + threads_ * epilogue_.scratch();
    parallel(threads_, p_.y[0] * p_.y[2], 1, [&](int64_t begin, int64_t end, int thread) {
      char* mine = own + thread * own_bytes();
      const uint8_t** taps = reinterpret_cast<const uint8_t**>(mine + sums_bytes());
      DepthwiseLine line{reinterpret_cast<int32_t*>(mine), taps, thread};
      for (int64_t i = begin; i < end; ++i) run_line(line, finish, image + i / p_.y[2] * steps_[0], i);
    });
  }

 private:
  struct DepthwiseLine {
    int32_t* sums;
    const uint8_t** taps;
    int thread;
  };

  /// Of one output of each channel; where there are several, those of all follow, in order.
  int64_t one_of_each() const { return pixels_ * blocks_ * lanes; }
  int64_t sums_bytes() const { return one_of_each() * (each_ == 1 ? 1 : 1 + each_) * 4; }
  int64_t own_bytes() const { return (sums_bytes() + 2 * pairs_ * static_cast<int64_t>(sizeof(void*)) + 63) / 64 * 64; }
  int64_t thread_bytes() const { return own_bytes() + epilogue_.scratch(); }

  void run_line(const DepthwiseLine& l, const igemm::Finish& finish, const uint8_t* image, int64_t line) const {
    const int64_t y = line % p_.y[2] * p_.stride[0] - p_.pad_begin[0];
    const bool inside_y = y >= 0 && y + (p_.w[2] - 1) * p_.dilation[0] < p_.x[0].shape[2];
    const int64_t stride = blocks_ * lanes;
    const int64_t step = p_.stride[1] * steps_[3], extent = (p_.w[3] - 1) * p_.dilation[1];
    integer::DepthwisePixels pixels{
        l.taps, 1, step, stride, pairs_, p_.group, packed_.data<int16_t>(), less_zero_.data(), l.sums, x_.type == DType::i8};
    for (int64_t first = 0; first < p_.y[3]; first += pixels_) {
      const int64_t count = std::min(pixels_, p_.y[3] - first);
      for (int64_t j = 0; j < count; j += pixels.pixels) {
        const int64_t x = (first + j) * p_.stride[1] - p_.pad_begin[1];
        pixels.pixels = 1;
        if (inside_y && x >= 0 && x + extent < p_.x[0].shape[3]) {
          const uint8_t* corner = image + y * steps_[2] + x * steps_[3];
          for (size_t t = 0; t < offsets_.size(); ++t) l.taps[t] = corner + offsets_[t];
          pixels.pixels = std::min(count - j, (p_.x[0].shape[3] - 1 - extent - x) / p_.stride[1] + 1);
        } else {
          point_at_border(l.taps, image, y, x);
        }
        run_pixels(pixels, l.sums, j);
      }
      const int32_t* sums = each_ == 1 ? l.sums : l.sums + one_of_each();
      finish.take({line * p_.y[3] + first, count, 0, p_.y[1], reinterpret_cast<const float*>(sums), each_ * stride, l.thread});
    }
  }

  /// The pixels from `first` on of those whose sums are kept.
  void run_pixels(integer::DepthwisePixels& pixels, int32_t* sums, int64_t first) const {
    const auto depthwise = avx2::integer_rows().depthwise;
    const int64_t stride = blocks_ * lanes;
    pixels.sums = sums + first * stride;
    if (each_ == 1) return depthwise(pixels);
    int32_t* all = sums + one_of_each() + first * each_ * stride;
    for (int64_t j = 0; j < each_; ++j) {
      pixels.weights = packed_.data<int16_t>() + j * stride * pairs_ * 2;
      pixels.start = less_zero_.data() + j * stride;
      depthwise(pixels);
      for (int64_t i = 0; i < pixels.pixels; ++i)
        for (int64_t c = 0; c < p_.group; ++c) all[(i * stride + c) * each_ + j] = pixels.sums[i * stride + c];
    }
  }

  void point_at_border(const uint8_t** taps, const uint8_t* image, int64_t y, int64_t x) const {
    for (int64_t t = 0; t < taps_; ++t) {
      const int64_t at_y = y + t / p_.w[3] * p_.dilation[0], at_x = x + t % p_.w[3] * p_.dilation[1];
      const bool inside = at_y >= 0 && at_x >= 0 && at_y < p_.x[0].shape[2] && at_x < p_.x[0].shape[3];
      taps[t] = inside ? image + at_y * steps_[2] + at_x * steps_[3] : outside_.data();
    }
    if (taps_ % 2 == 1) taps[taps_] = outside_.data();
  }

  /// [outputs of a channel][blocks][pairs][32]: for lanes 0-3, 8-11, then 4-7, 12-15, the weights of a pair of taps side by side.
  Tensor pack(const Request& q) const {
    Tensor t = Tensor::empty(DType::i16, {each_ * blocks_ * pairs_ * 2 * lanes});
    int16_t* to = t.data<int16_t>();
    for (int64_t j = 0; j < each_; ++j)
      for (int64_t block = 0; block < blocks_; ++block)
        for (int64_t p = 0; p < pairs_; ++p)
          for (int64_t i = 0; i < lanes; ++i) {
            const int64_t lane = i / 8 * 4 + i % 4 + (i / 4 % 2) * 8, c = std::min(block * lanes, p_.group - lanes) + lane;
            for (int64_t tap = 2 * p; tap < 2 * p + 2; ++tap)
              *to++ = tap < taps_ ? int8_weight(q, c * each_ + j, 0, tap) : int16_t{0};
          }
    return t;
  }

  Problem p_;
  int threads_;
  BoundTensor x_;
  size_t x_input_;
  Shape steps_;
  int64_t blocks_, each_, taps_, pairs_, pixels_;  // each: outputs of a channel
  std::vector<int64_t> offsets_;                   // of each tap, from the window's first pixel
  std::vector<int32_t> start_;
  ImageZero zero_;
  std::vector<int32_t> weights_;  // their sums
  CpuEpilogue epilogue_;
  std::vector<int32_t> less_zero_;  // start_ for the run's zero point, an output of each channel behind the other
  std::vector<uint8_t> outside_;    // what taps outside the image read
  Tensor packed_;
};

}  // namespace

void offer_int8_depthwise(const Request& q, Offer& offer) {
  const Problem& p = q.problem;
  if (p.group < lanes || p.w[1] != 1 || rejects_int8(q)) return;
  const BoundTensor& x = q.node.inputs[q.at.x];
  if (!is_channels_last(x)) {
    offer.refuse("avx2", Reason::wrong_layout, "depthwise, input layout {}; it reads nhwc", name(x.layout));
    return;
  }
  constexpr double flops_per_us = 25e3;  // one Zen 3 core at 3.2 GHz, measured
  offer.candidates.push_back(
      {"avx2", "depthwise", 1 + p.flops() / flops_per_us / q.threads, [q] { return std::make_unique<Int8Depthwise>(q); }});
}

}  // namespace smelt::ops::conv
