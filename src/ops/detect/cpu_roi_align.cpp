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
      int64_t per_bin = 0;
      const std::vector<RoiSample> samples = roi_samples(p_, corners, per_bin);
      if (side_by_side_)
        all_channels<T>(b, r, samples, per_bin, thread);
      else
        each_channel<T>(b, r, samples, per_bin);
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

  template <class T>
  void all_channels(const Buffers& b, int64_t r, const std::vector<RoiSample>& samples, int64_t per_bin, int thread) const {
    const float* maps = static_cast<const float*>(b.workspace);
    float* found = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + aligned(p_.batch * plane() * pitch_ * 4) +
                                            thread * thread_bytes());
    const double part = p_.maximum ? 1 : 1 / static_cast<double>(std::max<int64_t>(per_bin, 1));
    std::vector<int64_t> places(static_cast<size_t>(4 * per_bin));
    std::vector<float> weights(places.size());
    const RoiSample* s = samples.data();
    for (int64_t bin = 0; bin < bins(); ++bin, s += per_bin) {
      for (size_t k = 0; k < places.size(); ++k)
        places[k] = s[k / 4].place[k % 4], weights[k] = static_cast<float>(s[k / 4].weight[k % 4] * part);
      (p_.maximum ? tap_simd().largest : tap_simd().sum)(maps + item(b, r) * plane() * pitch_, places.data(), weights.data(),
                                                         4 * per_bin, pitch_, found + bin * pitch_);
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

  template <class T>
  void each_channel(const Buffers& b, int64_t r, const std::vector<RoiSample>& samples, int64_t per_bin) const {
    using A = decltype(wide(T{}));
    const int64_t n = item(b, r);
    T* y = static_cast<T*>(b.outputs[0]) + r * p_.channels * bins();
    for (int64_t c = 0; c < p_.channels; ++c) {
      const T* map = static_cast<const T*>(b.inputs[0]) + (n * p_.channels + c) * plane();
      const RoiSample* s = samples.data();
      for (int64_t bin = 0; bin < bins(); ++bin) {
        A sum = 0, largest = 0;
        for (int64_t i = 0; i < per_bin; ++i, ++s) {
          A part[4];
          for (int k = 0; k < 4; ++k) part[k] = static_cast<A>(s->weight[k]) * wide(map[s->place[k]]);
          sum += part[0] + part[1] + part[2] + part[3];
          // ONNX's max takes the largest weighted neighbour, not the largest interpolated value.
          const A value = std::max(std::max(part[0], part[1]), std::max(part[2], part[3]));
          largest = i == 0 ? value : std::max(largest, value);
        }
        *y++ = static_cast<T>(p_.maximum ? largest : sum / static_cast<A>(std::max<int64_t>(per_bin, 1)));
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
