// RoiAlign on the processor: the samples of a region once, then each channel's bins.
#include <algorithm>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
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
        threads_(useful_threads(threads, elements(b.outputs[0].shape) * 16)) {}

  void run(const Buffers& b) override {
    for (int64_t r = 0; r < p_.rois; ++r) item(b, r);  // throws before threads begin
    std::exception_ptr failed;                         // of a region that takes too many samples
    std::mutex lock;
    parallel_dynamic(threads_, p_.rois, [&](int64_t r, int) {
      try {
        region(b, r);
      } catch (...) {
        const std::scoped_lock held(lock);
        failed = std::current_exception();
      }
    });
    if (failed) std::rethrow_exception(failed);
  }

 private:
  void region(const Buffers& b, int64_t r) const {
    if (type_ == DType::f64)
      region<double>(b, r);
    else if (type_ == DType::f16)
      region<Half>(b, r);
    else if (type_ == DType::bf16)
      region<BFloat>(b, r);
    else
      region<float>(b, r);
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

  template <class T> void region(const Buffers& b, int64_t r) const {
    using A = decltype(wide(T{}));
    double corners[4];
    for (int64_t k = 0; k < 4; ++k) corners[k] = static_cast<double>(wide(static_cast<const T*>(b.inputs[1])[4 * r + k]));
    int64_t per_bin = 0;
    const std::vector<RoiSample> samples = roi_samples(p_, corners, per_bin);
    const int64_t bins = p_.out_height * p_.out_width, plane = p_.height * p_.width, n = item(b, r);
    T* y = static_cast<T*>(b.outputs[0]) + r * p_.channels * bins;
    for (int64_t c = 0; c < p_.channels; ++c) {
      const T* map = static_cast<const T*>(b.inputs[0]) + (n * p_.channels + c) * plane;
      const RoiSample* s = samples.data();
      for (int64_t bin = 0; bin < bins; ++bin) {
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
  bool wide_;
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
