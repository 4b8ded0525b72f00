// Windows and mel filters on the processor. A window's cosines are those of a block's first place turned by the angles within a block,
// so that the loop over a block has no calls.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/signal/offer.h"
#include "ops/signal/windows.h"

namespace smelt::ops {
namespace {

constexpr int64_t block = 256;

class WindowKernel final : public Kernel {
 public:
  WindowKernel(const BoundNode& b, int threads)
      : window_(cosine_window(*b.node)),
        type_(b.outputs[0].type),
        size_(b.outputs[0].shape[0]),
        places_(static_cast<double>(b.node->get_int("periodic", 1) ? size_ : size_ - 1)),
        threads_(useful_threads(threads, 2 * size_)) {
    for (int64_t i = 0; i < block; ++i) {
      cosines_[static_cast<size_t>(i)] = std::cos(angle(i));
      sines_[static_cast<size_t>(i)] = std::sin(angle(i));
    }
  }

  void run(const Buffers& b) override {
    if (type_ == DType::f64)
      fill(static_cast<double*>(b.outputs[0]));
    else
      fill(static_cast<float*>(b.outputs[0]));
  }

 private:
  double angle(int64_t k) const { return 2 * std::numbers::pi * static_cast<double>(k) / places_; }

  template <class T> void fill(T* y) const {
    if (places_ <= 0) {  // one place: its peak
      std::fill_n(y, size_, static_cast<T>(window_.a0 + window_.a1 + window_.a2));
      return;
    }
    parallel(threads_, size_, block, [&](int64_t begin, int64_t end, int) {
      for (int64_t first = begin; first < end; first += block) {
        const double c = std::cos(angle(first)), s = std::sin(angle(first));
        T* to = y + first;
        const int64_t n = std::min(block, end - first);
        for (int64_t i = 0; i < n; ++i) {
          const double x = c * cosines_[static_cast<size_t>(i)] - s * sines_[static_cast<size_t>(i)];
          to[i] = static_cast<T>(window_.a0 - window_.a1 * x + window_.a2 * (2 * x * x - 1));
        }
      }
    });
  }

  CosineWindow window_;
  DType type_;
  int64_t size_;
  double places_;
  int threads_;
  std::array<double, block> cosines_, sines_;
};

class MelKernel final : public Kernel {
 public:
  explicit MelKernel(const BoundNode& b) : bound_(b.inputs), type_(b.outputs[0].type), shape_(b.outputs[0].shape) {}

  void run(const Buffers& b) override {
    std::array<Tensor, 5> in;  // parameters
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = Tensor::borrow(bound_[i].type, bound_[i].shape, const_cast<void*>(b.inputs[i]));
    const MelFilter filter = mel_filter(in);
    if (type_ == DType::f64)
      fill(filter, static_cast<double*>(b.outputs[0]));
    else
      fill(filter, static_cast<float*>(b.outputs[0]));
  }

 private:
  template <class T> void fill(const MelFilter& filter, T* y) const {
    std::fill_n(y, elements(shape_), T{});
    filter.for_each_weight([&](int64_t row, int64_t bin, double value) { y[row * filter.bins + bin] = static_cast<T>(value); });
  }

  std::vector<BoundTensor> bound_;
  DType type_;
  Shape shape_;
};

/// Whether a kernel of either refuses the node.
bool refuses(const BoundNode& b, Offer& offer) {
  const DType type = b.outputs[0].type;
  if (type != DType::f32 && type != DType::f64) {
    offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
    return true;
  }
  const auto why = rejects_layouts(b);
  if (why) offer.refuse("cpu", *why);
  return why.has_value();
}

}  // namespace

void offer_window_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (refuses(b, offer)) return;
  const double estimate = 1 + static_cast<double>(elements(b.outputs[0].shape)) / 700 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<WindowKernel>(bound, threads);
                              }});
}

void offer_mel_cpu(const BoundNode& b, const Machine&, Offer& offer) {
  if (refuses(b, offer)) return;
  if (!b.constant(0) || !b.constant(1)) return offer.refuse("cpu", Reason::not_constant, "its extents are computed");
  const double estimate = 2 + static_cast<double>(elements(b.outputs[0].shape)) / 4000;
  offer.candidates.push_back({"cpu", "", estimate, [b] { return std::make_unique<MelKernel>(b); }});
}

}  // namespace smelt::ops
