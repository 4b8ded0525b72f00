// Movement along strides on the processor, prepared once: Transpose, Slice, Expand and Split.
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/offer.h"

namespace smelt::ops {
namespace {

/// The outputs as windows of the input; a null output is left out.
class WindowKernel final : public Kernel {
 public:
  WindowKernel(const BoundNode& b, const std::vector<StridedWindow>& windows, int threads)
      : size_(element_bytes(b.inputs[0].type)) {
    for (size_t i = 0; i < windows.size(); ++i) {
      const BoundTensor& y = b.outputs[i];
      offsets_.push_back(windows[i].offset * size_);
      copies_.emplace_back(y.shape, windows[i].strides, y.type == DType::undefined ? Shape() : memory_strides(y), size_, threads);
    }
  }

  void run(const Buffers& b) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      if (b.outputs[i]) copies_[i].run(b.outputs[i], static_cast<const char*>(b.inputs[0]) + offsets_[i]);
    }
  }

 private:
  int64_t size_;
  std::vector<int64_t> offsets_;  // bytes
  std::vector<StridedCopy> copies_;
};

}  // namespace

void offer_windows_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_windows(b, true)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine), [b, threads = machine.threads] {
                                return std::make_unique<WindowKernel>(b, windows_of(b), threads);
                              }});
}

}  // namespace smelt::ops
