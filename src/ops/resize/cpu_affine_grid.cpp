// AffineGrid on the processor: along a row of the grid each coordinate is a number and another one times the place's.
#include <algorithm>
#include <array>

#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/parallel.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

constexpr size_t most_axes = 3;
constexpr size_t tile = 12;  // values: whole places of two or three coordinates, and whole vectors

template <class T> double wide(T v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<double>(static_cast<float>(v));
}

class AffineGridKernel final : public Kernel {
 public:
  AffineGridKernel(const BoundNode& b, int threads)
      : type_(b.outputs[0].type), rank_(b.outputs[0].shape.size() - 2), align_(b.node->get_int("align_corners", 0) != 0) {
    const Shape& y = b.outputs[0].shape;
    batch_ = y[0];
    spatial_.assign(y.begin() + 1, y.end() - 1);
    outer_.assign(spatial_.begin(), spatial_.end() - 1);
    threads_ = useful_threads(threads, 2 * elements(y));
    for (size_t d = 0; d + 1 < rank_; ++d)
      for (int64_t i = 0; i < spatial_[d]; ++i) across_[d].push_back(coordinate(d, i));
    for (int64_t i = 0; i < spatial_.back(); ++i) along_.insert(along_.end(), rank_, coordinate(rank_ - 1, i));
    along_.resize((along_.size() + tile - 1) / tile * tile);
    along_f32_.assign(along_.begin(), along_.end());
  }

  void run(const Buffers& b) override {
    switch (type_) {
      case DType::f32: return by_rank<float>(b, along_f32_.data());
      case DType::f64: return by_rank<double>(b, along_.data());
      case DType::f16: return by_rank<Half>(b, along_f32_.data());
      default: return by_rank<BFloat>(b, along_f32_.data());
    }
  }

 private:
  /// Of place i along spatial axis d.
  double coordinate(size_t d, int64_t i) const {
    const double at = static_cast<double>(i), length = static_cast<double>(spatial_[d]);
    if (!align_) return (2 * at + 1) / length - 1;
    return length == 1 ? 0.0 : 2 * at / (length - 1) - 1;
  }

  template <class T, class A> void by_rank(const Buffers& b, const A* along) const {
    if (rank_ == 2) return rows<2, T>(b, along);
    rows<3, T>(b, along);
  }

  template <size_t rank, class T, class A> void rows(const Buffers& b, const A* along) const {
    const int64_t width = static_cast<int64_t>(rank) * spatial_.back(), rows = elements(outer_);
    parallel(threads_, batch_ * rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        std::array<A, tile> sums, steps;
        find<rank, T>(b, i / rows, i % rows, sums, steps);
        write(static_cast<T*>(b.outputs[0]) + i * width, width, sums, steps, along);
      }
    });
  }

  /// What a row's values are made of, repeated over a tile: those of the outer axes and the offset, and the step of the innermost.
  template <size_t rank, class T, class A>
  void find(const Buffers& b, int64_t n, int64_t row, std::array<A, tile>& sums, std::array<A, tile>& steps) const {
    const T* theta = static_cast<const T*>(b.inputs[0]) + n * static_cast<int64_t>(rank * (rank + 1));
    std::array<double, rank> at_outer;
    for (size_t d = rank - 1; d-- > 0;) {
      at_outer[d] = across_[d][static_cast<size_t>(row % spatial_[d])];
      row /= spatial_[d];
    }
    for (size_t k = 0; k < rank; ++k) {
      const T* own = theta + k * (rank + 1);  // innermost axis first, then the offset
      double sum = wide(own[rank]);
      for (size_t d = rank - 1; d-- > 0;) sum += wide(own[rank - 1 - d]) * at_outer[d];
      const auto first = static_cast<A>(sum), step = static_cast<A>(wide(own[0]));
      for (size_t at = k; at < tile; at += rank) sums[at] = first, steps[at] = step;
    }
  }

  template <class T, class A>
  static void write(T* y, int64_t width, const std::array<A, tile>& sums, const std::array<A, tile>& steps, const A* along) {
    int64_t i = 0;
    for (; i + static_cast<int64_t>(tile) <= width; i += tile)
      for (size_t k = 0; k < tile; ++k)
        y[i + static_cast<int64_t>(k)] = T(sums[k] + steps[k] * along[i + static_cast<int64_t>(k)]);
    for (size_t k = 0; i < width; ++i, ++k) y[i] = T(sums[k] + steps[k] * along[i]);
  }

  DType type_;
  size_t rank_;
  bool align_;
  int64_t batch_ = 0;
  Shape spatial_, outer_;
  std::array<std::vector<double>, most_axes> across_;  // coordinates along each axis but the innermost
  std::vector<double> along_;  // coordinates along the innermost axis, each as often as a place has coordinates
  std::vector<float> along_f32_;
  int threads_ = 1;
};

}  // namespace

void offer_affine_grid_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.outputs[0].type;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const double estimate = 1 + static_cast<double>(elements(b.outputs[0].shape)) / 1500 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<AffineGridKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
