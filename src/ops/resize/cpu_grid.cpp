// GridSample on the processor, in any number of spatial dimensions: the taps of some places once, then a sum for each channel; of
// many channels, all at once, from a copy of the image that has them side by side.
#include <algorithm>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cpu/rows/taps.h"
#include "ops/resize/grid.h"
#include "ops/resize/offer.h"
#include "ops/resize/simd/grid.h"

namespace smelt::ops {
namespace {

constexpr int64_t block = grid_block;  // places whose taps are found together
constexpr size_t most_axes = grid_axes;

class GridSampleKernel final : public Kernel {
 public:
  GridSampleKernel(const BoundNode& b, int threads)
      : sampling_(*b.node),
        type_(b.inputs[0].type),
        grid_type_(b.inputs[1].type),
        spatial_(spatial_of(b.inputs[0].shape)),
        steps_(strides(spatial_)),
        batch_(b.inputs[0].shape[0]),
        channels_(b.inputs[0].shape[1]),
        plane_(elements(spatial_)),
        places_(elements(spatial_of(b.outputs[0].shape))),
        taps_(1) {
    for (size_t d = 0; d < spatial_.size(); ++d) taps_ *= sampling_.most();
    threads_ = useful_threads(threads, batch_ * places_ * (channels_ * taps_ + 32));
    pitch_ = tap_channels(channels_);
    const std::optional<GridGeometry> found = sampling_.geometry(spatial_);
    at_once_ = found && type_ == DType::f32 && grid_type_ == DType::f32;
    if (at_once_) geometry_ = *found;
    side_by_side_ = type_ != DType::f64 && taps_ > 1 && channels_ >= tap_block / 2 && places_ * taps_ >= 2 * plane_;
  }
  int64_t workspace() const override { return image_bytes() + threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    if (side_by_side_) lay_side_by_side(b);
    const int64_t blocks = (places_ + block - 1) / block;
    parallel(threads_, batch_ * blocks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + image_bytes() + thread * thread_bytes();
      auto* offsets = reinterpret_cast<int64_t*>(own);
      auto* weights = reinterpret_cast<double*>(own + aligned(block * taps_ * 8));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / blocks, first = i % blocks * block, count = std::min(block, places_ - first);
        if (at_once_) {
          sample_at_once(b, n, first, count, own);
          continue;
        }
        for (int64_t o = 0; o < count; ++o) find(b.inputs[1], n * places_ + first + o, offsets + o * taps_, weights + o * taps_);
        with_type([&]<class T>(T*) {
          if (side_by_side_)
            sum_side_by_side<T>(b, n, first, count, offsets, weights, own + tap_bytes());
          else
            sum<T>(b, n, first, count, offsets, weights);
        });
      }
    });
  }

 private:
  int64_t tap_bytes() const { return 2 * aligned(block * taps_ * 8); }
  int64_t found_bytes() const { return side_by_side_ ? aligned(block * pitch_ * 4) : 0; }
  int64_t thread_bytes() const {
    const int64_t at_once = at_once_ ? aligned(static_cast<int64_t>(sizeof(GridBlock))) : 0;
    return std::max(at_once + found_bytes() + aligned(taps_ * 12), own_bytes());
  }
  int64_t own_bytes() const { return tap_bytes() + found_bytes() + (side_by_side_ ? aligned(taps_ * 4) : 0); }
  int64_t image_bytes() const { return side_by_side_ ? aligned(batch_ * plane_ * pitch_ * 4) : 0; }

  /// f(a null pointer to the type's elements).
  template <class F> void with_type(F&& f) const {
    switch (type_) {
      case DType::f64: return f(static_cast<double*>(nullptr));
      case DType::f16: return f(static_cast<Half*>(nullptr));
      case DType::bf16: return f(static_cast<BFloat*>(nullptr));
      default: return f(static_cast<float*>(nullptr));
    }
  }

  /// The images with their channels side by side, widened.
  void lay_side_by_side(const Buffers& b) const {
    with_type([&]<class T>(T*) {
      constexpr int64_t piece = 256;  // pixels
      const int64_t pieces = (plane_ + piece - 1) / piece;
      parallel(threads_, batch_ * pieces, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = i / pieces, at = i % pieces * piece;
          transpose(static_cast<float*>(b.workspace) + (n * plane_ + at) * pitch_, pitch_,
                    static_cast<const T*>(b.inputs[0]) + n * channels_ * plane_ + at, plane_, std::min(piece, plane_ - at),
                    channels_);
        }
      });
    });
  }

  template <class T> void sum_side_by_side(const Buffers& b, int64_t n, int64_t first, int64_t count, const int64_t* offsets,
                                           const double* weights, char* own) const {
    const float* image = static_cast<const float*>(b.workspace) + n * plane_ * pitch_;
    float* found = reinterpret_cast<float*>(own);
    float* narrow = reinterpret_cast<float*>(own + found_bytes());
    for (int64_t o = 0; o < count; ++o) {
      int64_t taps = 0;
      for (; taps < taps_ && offsets[o * taps_ + taps] >= 0; ++taps) narrow[taps] = static_cast<float>(weights[o * taps_ + taps]);
      tap_simd().sum(image, offsets + o * taps_, narrow, taps, pitch_, found + o * pitch_);
    }
    transpose(static_cast<T*>(b.outputs[0]) + n * channels_ * places_ + first, places_, found, pitch_, channels_, count);
  }

  /// The taps of all places of a block together.
  void sample_at_once(const Buffers& b, int64_t n, int64_t first, int64_t count, char* own) const {
    const GridTable& table = simd::best() == simd::Isa::avx2 ? avx2::grid_table() : base::grid_table();
    auto* found = reinterpret_cast<GridBlock*>(own);
    const float* grid = static_cast<const float*>(b.inputs[1]) + (n * places_ + first) * std::ssize(spatial_);
    table.find(geometry_, grid, count, found);
    float* y = static_cast<float*>(b.outputs[0]) + n * channels_ * places_ + first;
    if (!side_by_side_) {
      const float* x = static_cast<const float*>(b.inputs[0]) + n * channels_ * plane_;
      for (int64_t c = 0; c < channels_; ++c) table.sum(*found, geometry_.taps(), x + c * plane_, count, y + c * places_);
      return;
    }
    const float* image = static_cast<const float*>(b.workspace) + n * plane_ * pitch_;
    float* sums = reinterpret_cast<float*>(own + aligned(static_cast<int64_t>(sizeof(GridBlock))));
    auto* offsets = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(sums) + found_bytes());
    float* weights = reinterpret_cast<float*>(offsets + taps_);
    for (int64_t o = 0; o < count; ++o) {
      int64_t taps = 0;
      for (int k = 0; k < geometry_.taps(); ++k)
        if (found->offsets[k][o] >= 0) offsets[taps] = found->offsets[k][o], weights[taps++] = found->weights[k][o];
      tap_simd().sum(image, offsets, weights, taps, pitch_, sums + o * pitch_);
    }
    transpose(y, places_, sums, pitch_, channels_, count);
  }

  double coordinate(const void* grid, int64_t at) const {
    switch (grid_type_) {
      case DType::f64: return static_cast<const double*>(grid)[at];
      case DType::f16: return static_cast<double>(static_cast<float>(static_cast<const Half*>(grid)[at]));
      case DType::bf16: return static_cast<double>(static_cast<float>(static_cast<const BFloat*>(grid)[at]));
      default: return static_cast<double>(static_cast<const float*>(grid)[at]);
    }
  }

  /// Every combination of the axes' taps; those that are not there have the weight 0 and the offset -1.
  void find(const void* grid, int64_t place, int64_t* offsets, double* weights) const {
    const size_t rank = spatial_.size();
    GridTaps taps[most_axes];
    for (size_t d = 0; d < rank; ++d)  // a position lists the innermost axis first
      taps[d] =
          sampling_.taps(spatial_[d], coordinate(grid, place * static_cast<int64_t>(rank) + static_cast<int64_t>(rank - 1 - d)));
    int64_t k = 0;
    if (rank == 2) {
      for (int i = 0; i < taps[0].count; ++i)
        for (int j = 0; j < taps[1].count; ++j, ++k) {
          offsets[k] = taps[0].place[i] * steps_[0] + taps[1].place[j];
          weights[k] = taps[0].weight[i] * taps[1].weight[j];
        }
      for (; k < taps_; ++k) offsets[k] = -1, weights[k] = 0;
      return;
    }
    for (int i = 0; i < taps[0].count; ++i) {
      if (rank == 1) {
        offsets[k] = taps[0].place[i], weights[k++] = taps[0].weight[i];
        continue;
      }
      for (int j = 0; j < taps[1].count; ++j) {
        const int64_t offset = taps[0].place[i] * steps_[0] + taps[1].place[j] * steps_[1];
        const double weight = taps[0].weight[i] * taps[1].weight[j];
        for (int l = 0; l < taps[2].count; ++l, ++k)
          offsets[k] = offset + taps[2].place[l], weights[k] = weight * taps[2].weight[l];
      }
    }
    for (; k < taps_; ++k) offsets[k] = -1, weights[k] = 0;
  }

  template <class T>
  void sum(const Buffers& b, int64_t n, int64_t first, int64_t count, const int64_t* offsets, const double* weights) const {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t c = 0; c < channels_; ++c) {
      const T* x = static_cast<const T*>(b.inputs[0]) + (n * channels_ + c) * plane_;
      T* y = static_cast<T*>(b.outputs[0]) + (n * channels_ + c) * places_ + first;
      for (int64_t o = 0; o < count; ++o) {
        A total = 0;
        for (int64_t k = o * taps_; k < (o + 1) * taps_ && offsets[k] >= 0; ++k)
          total += static_cast<A>(weights[k]) * static_cast<A>(x[offsets[k]]);
        y[o] = static_cast<T>(total);
      }
    }
  }

  GridSampling sampling_;
  DType type_, grid_type_;
  Shape spatial_, steps_;
  int64_t batch_, channels_, plane_, places_, taps_;
  int64_t pitch_ = 0;  // of a pixel's channels
  bool side_by_side_ = false, at_once_ = false;
  GridGeometry geometry_{};
  int threads_ = 1;
};

}  // namespace

void offer_grid_sample_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  for (size_t i = 0; i < 2; ++i)
    if (!float_kind(b.inputs[i].type) && b.inputs[i].type != DType::f64)
      return offer.refuse("cpu", Reason::wrong_type, "input {} is {}", i, name(b.inputs[i].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (x.shape.size() < 3 || x.shape.size() > 2 + most_axes)
    return offer.refuse("cpu", Reason::wrong_rank, "{} spatial axes; it knows 1 to {}", x.shape.size() - 2, most_axes);
  if (elements(x.shape) == 0 || elements(b.outputs[0].shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(b.outputs[0].shape)) / 200 / machine.threads,
                              [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<GridSampleKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
