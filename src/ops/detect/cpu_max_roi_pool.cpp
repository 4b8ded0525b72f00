// MaxRoiPool on the processor, regions and channels by threads: the rows of a bin are folded into one over the width of the region,
// then the columns of each bin.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/detect/offer.h"

namespace smelt::ops {
namespace {

struct Span {
  int64_t begin, end;
};

class MaxRoiPoolKernel final : public Kernel {
 public:
  MaxRoiPoolKernel(const BoundNode& b, int threads)
      : x_(b.inputs[0].shape),
        y_(b.outputs[0].shape),
        type_(b.inputs[0].type),
        scale_(b.node->get_float("spatial_scale", 1)),
        threads_(useful_threads(threads, y_[0] * y_[1] * (y_[2] * y_[3] * 8 + x_[2] * x_[3] / 4))) {}

  int64_t workspace() const override { return threads_ * row_bytes(); }

  void run(const Buffers& b) override {
    switch (type_) {
      case DType::f32: return pool<float, float>(b);
      case DType::f64: return pool<double, double>(b);
      case DType::f16: return pool<Half, float>(b);
      default: return pool<BFloat, float>(b);
    }
  }

 private:
  int64_t row_bytes() const { return aligned(x_[3] * 8); }

  struct Region {
    int64_t item;
    std::vector<Span> rows, columns;  // by bin
  };

  /// Bins of `count` along an axis, of a region from `low` to `high` before it is scaled.
  std::vector<Span> bins(double low, double high, int64_t count, int64_t extent) const {
    const double first = std::round(low * scale_),
                 size = std::max(std::round(high * scale_) - first + 1, 1.0) / static_cast<double>(count);
    const auto inside = [&](double v) { return std::clamp<int64_t>(truncated(v), 0, extent); };
    std::vector<Span> all;
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<double>(i);
      all.push_back({inside(std::floor(at * size) + first), inside(std::ceil((at + 1) * size) + first)});
    }
    return all;
  }

  template <class T, class A> std::vector<Region> regions(const Buffers& b) const {
    std::vector<Region> all;
    for (int64_t r = 0; r < y_[0]; ++r) {
      const T* roi = static_cast<const T*>(b.inputs[1]) + 5 * r;
      const auto at = [&](int k) { return static_cast<double>(static_cast<A>(roi[k])); };
      const int64_t item = truncated(at(0));
      if (!(at(0) >= 0) || item >= x_[0]) fail("roi {} is of item {}, expected 0 to {}", r, at(0), x_[0] - 1);
      all.push_back({item, bins(at(2), at(4), y_[2], x_[2]), bins(at(1), at(3), y_[3], x_[3])});
    }
    return all;
  }

  template <class T, class A> void pool(const Buffers& b) const {
    const std::vector<Region> all = regions<T, A>(b);
    parallel(threads_, y_[0] * y_[1], 1, [&](int64_t begin, int64_t end, int thread) {
      A* row = reinterpret_cast<A*>(static_cast<char*>(b.workspace) + thread * row_bytes());
      for (int64_t i = begin; i < end; ++i) {
        const Region& region = all[static_cast<size_t>(i / y_[1])];
        const T* map = static_cast<const T*>(b.inputs[0]) + (region.item * x_[1] + i % y_[1]) * x_[2] * x_[3];
        T* y = static_cast<T*>(b.outputs[0]) + i * y_[2] * y_[3];
        for (const Span& rows : region.rows) y = bin_row(map, rows, region.columns, row, y);
      }
    });
  }

  /// The bins beside each other over these rows; an empty bin is 0. Returns where the next ones go.
  template <class T, class A>
  T* bin_row(const T* map, Span rows, const std::vector<Span>& columns, A* __restrict row, T* y) const {
    constexpr A lowest = -std::numeric_limits<A>::infinity();
    const int64_t left = columns.front().begin, right = columns.back().end;
    std::fill(row + left, row + std::max(left, right), lowest);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const T* from = map + i * x_[3];
      for (int64_t k = left; k < right; ++k) {
        const A v = static_cast<A>(from[k]);
        row[k] = v > row[k] ? v : row[k];  // never a NaN
      }
    }
    for (const Span& span : columns) {
      A best = lowest;
      for (int64_t k = span.begin; k < span.end; ++k) best = row[k] > best ? row[k] : best;
      *y++ = T(rows.begin < rows.end && span.begin < span.end ? best : A{});
    }
    return y;
  }

  Shape x_, y_;
  DType type_;
  double scale_;
  int threads_;
};

}  // namespace

void offer_max_roi_pool_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if ((type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16) || b.inputs[1].type != type)
    return offer.refuse("cpu", Reason::wrong_type, "x of {} and regions of {}", name(type), name(b.inputs[1].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.inputs[0].shape) == 0 || elements(b.outputs[0].shape) == 0)
    return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const double estimate = 2 + static_cast<double>(elements(b.outputs[0].shape)) / 100 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<MaxRoiPoolKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
