// RoiAlign on the processor: the samples of a region once, then each channel's bins; of regions that take more samples than the map
// has pixels, all channels at once, from a copy that has them side by side.
#include <algorithm>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cpu/rows/taps.h"
#include "ops/detect/offer.h"
#include "ops/detect/roi.h"

namespace smelt::ops {
namespace {

class RoiAlignKernel final : public Kernel {
 public:
  RoiAlignKernel(const BoundNode& b, int threads)
      : p_(roi_align_of(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape)),
        type_(b.inputs[0].type),
        wide_(b.inputs[2].type == DType::i64),
        pitch_(tap_channels(p_.channels)),
        threads_(useful_threads(threads, elements(b.outputs[0].shape) * 16)) {
    const int64_t side = std::max<int64_t>(1, std::min<int64_t>(p_.sampling, 8));
    const int64_t samples = p_.rois * p_.out_height * p_.out_width * side * side;
    side_by_side_ = type_ != DType::f64 && p_.channels >= tap_block / 2 && samples * 4 >= p_.batch * p_.height * p_.width;
  }
  int64_t workspace() const override {
    return side_by_side_ ? aligned(p_.batch * plane() * pitch_ * 4) + threads_ * thread_bytes() : 0;
  }

  void run(const Buffers& b) override {
    for (int64_t r = 0; r < p_.rois; ++r) item(b, r);  // throws before threads begin
    if (side_by_side_) lay_side_by_side(b);
    std::exception_ptr failed;  // of a region that takes too many samples
    std::mutex lock;
    parallel_dynamic(threads_, p_.rois, [&](int64_t r, int thread) {
      try {
        region(b, r, thread);
      } catch (...) {
        const std::scoped_lock held(lock);
        failed = std::current_exception();
      }
    });
    if (failed) std::rethrow_exception(failed);
  }

 private:
  int64_t plane() const { return p_.height * p_.width; }
  int64_t bins() const { return p_.out_height * p_.out_width; }
  int64_t thread_bytes() const { return aligned(bins() * pitch_ * 4); }

  /// f(a null pointer to the type's elements).
  template <class F> void with_type(F&& f) const {
    if (type_ == DType::f64)
      f(static_cast<double*>(nullptr));
    else if (type_ == DType::f16)
      f(static_cast<Half*>(nullptr));
    else if (type_ == DType::bf16)
      f(static_cast<BFloat*>(nullptr));
    else
      f(static_cast<float*>(nullptr));
  }

  void region(const Buffers& b, int64_t r, int thread) const {
    with_type([&]<class T>(T*) {
      double corners[4];
      for (int64_t k = 0; k < 4; ++k) corners[k] = static_cast<double>(wide(static_cast<const T*>(b.inputs[1])[4 * r + k]));
      const RoiPlaces places = roi_places(p_, corners);
      if (side_by_side_)
        all_channels<T>(b, r, places, thread);
      else
        each_channel<T>(b, r, places);
    });
  }

  /// The maps with their channels side by side, widened.
  void lay_side_by_side(const Buffers& b) const {
    with_type([&]<class T>(T*) {
      constexpr int64_t piece = 256;  // pixels
      const int64_t pieces = (plane() + piece - 1) / piece;
      parallel(threads_, p_.batch * pieces, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = i / pieces, at = i % pieces * piece;
          transpose(static_cast<float*>(b.workspace) + (n * plane() + at) * pitch_, pitch_,
                    static_cast<const T*>(b.inputs[0]) + n * p_.channels * plane() + at, plane(), std::min(piece, plane() - at),
                    p_.channels);
        }
      });
    });
  }

  template <class T> void all_channels(const Buffers& b, int64_t r, const RoiPlaces& of, int thread) const {
    const float* maps = static_cast<const float*>(b.workspace) + item(b, r) * plane() * pitch_;
    float* found = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + aligned(p_.batch * plane() * pitch_ * 4) +
                                            thread * thread_bytes());
    const double part = p_.maximum ? 1 : 1 / of.samples();
    std::vector<int64_t> places;
    std::vector<float> weights;
    float* to = found;
    for (int64_t row = 0; row < p_.out_height; ++row)
      for (int64_t column = 0; column < p_.out_width; ++column, to += pitch_) {
        places.clear(), weights.clear();
        for (const RoiEntry& down : of.rows.of(row))
          for (const RoiEntry& across : of.columns.of(column)) {
            places.push_back(down.pixel * p_.width + across.pixel);
            weights.push_back(static_cast<float>(down.weight * across.weight * part));
          }
        (p_.maximum ? tap_simd().largest : tap_simd().sum)(maps, places.data(), weights.data(),
                                                           static_cast<int64_t>(places.size()), pitch_, to);
        if (p_.maximum && of.beyond(row, column))
          for (int64_t c = 0; c < p_.channels; ++c) to[c] = std::max(to[c], 0.0f);
      }
    transpose(static_cast<T*>(b.outputs[0]) + r * p_.channels * bins(), bins(), found, pitch_, p_.channels, bins());
  }

  int64_t item(const Buffers& b, int64_t r) const {
    const int64_t n = wide_ ? static_cast<const int64_t*>(b.inputs[2])[r] : static_cast<const int32_t*>(b.inputs[2])[r];
    if (n < 0 || n >= p_.batch) fail("batch_indices has {}, expected 0 to {}", n, p_.batch - 1);
    return n;
  }

  template <class T> static auto wide(T v) {
    if constexpr (std::is_same_v<T, double>)
      return v;
    else
      return static_cast<float>(v);
  }

  template <class T> void each_channel(const Buffers& b, int64_t r, const RoiPlaces& of) const {
    using A = decltype(wide(T{}));
    const int64_t n = item(b, r);
    const A samples = static_cast<A>(of.samples());
    T* y = static_cast<T*>(b.outputs[0]) + r * p_.channels * bins();
    for (int64_t c = 0; c < p_.channels; ++c) {
      const T* map = static_cast<const T*>(b.inputs[0]) + (n * p_.channels + c) * plane();
      for (int64_t row = 0; row < p_.out_height; ++row)
        for (int64_t column = 0; column < p_.out_width; ++column) {
          A sum = 0, largest = 0;
          bool any = of.beyond(row, column);
          for (const RoiEntry& down : of.rows.of(row)) {
            const T* line = map + down.pixel * p_.width;
            for (const RoiEntry& across : of.columns.of(column)) {
              const A v = static_cast<A>(down.weight * across.weight) * wide(line[across.pixel]);
              sum += v;
              // ONNX's max takes the largest weighted neighbour, not the largest interpolated value.
              largest = any ? std::max(largest, v) : v;
              any = true;
            }
          }
          *y++ = static_cast<T>(p_.maximum ? largest : sum / samples);
        }
    }
  }

  RoiAlign p_;
  DType type_;
  bool wide_, side_by_side_ = false;
  int64_t pitch_;  // of a pixel's channels
  int threads_;
};

}  // namespace

void offer_roi_align_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type, index = b.inputs[2].type;
  if ((!float_kind(type) && type != DType::f64) || b.inputs[1].type != type)
    return offer.refuse("cpu", Reason::wrong_type, "x of {} and regions of {}", name(type), name(b.inputs[1].type));
  if (index != DType::i64 && index != DType::i32) return offer.refuse("cpu", Reason::wrong_type, "indices of {}", name(index));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.inputs[0].shape) == 0 || elements(b.outputs[0].shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(b.outputs[0].shape)) / 100 / machine.threads,
                              [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<RoiAlignKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
