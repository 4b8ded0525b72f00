// A convolution of elements that no convolution kernel knows, as products of matrices: what a window sees of an image becomes a column,
// some places at a time, and the weights are multiplied with the columns (ops/cpu/wide/gemm.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/number.h"
#include "ops/conv/conv.h"
#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/wide/gemm.h"

namespace smelt::ops::conv {

/// y[image, group, m, places] = w[group, m, depth] · columns[depth, places] for every image and group.
class ColumnsProduct {
 public:
  struct Extents {
    int64_t images, groups, m, depth, places;
  };
  ColumnsProduct(wide::Type type, const Extents& e, int threads)
      : e_(e),
        size_(wide::bytes(type)),
        block_(block_of(e, threads)),
        blocks_(divide_up(e.places, block_)),
        tasks_(e.images * e.groups * blocks_),
        threads_(useful_threads(threads, e.images * e.groups * e.m * e.depth * e.places / 4)),
        whole_(type, e.m, block_, e.depth, share()),
        last_(type, e.m, e.places - (blocks_ - 1) * block_, e.depth, share()) {}

  int64_t workspace() const { return workers() * (columns_bytes() + product_bytes()); }

  /// gather(image, group, first, count, columns): the columns of `count` places from `first` on, rows of `count` elements.
  /// finish(image, group, first, count, y): y lies `places` elements from row to row.
  template <class Gather, class Finish>
  void run(const void* w, void* y, void* workspace, const Gather& gather, const Finish& finish) const {
    const auto one = [&](int64_t task, int worker) {
      const int64_t block = task % blocks_, group = task / blocks_ % e_.groups, image = task / blocks_ / e_.groups;
      const int64_t first = block * block_, count = std::min(block_, e_.places - first);
      char* columns = static_cast<char*>(workspace) + worker * (columns_bytes() + product_bytes());
      gather(image, group, first, count, columns);
      char* to = static_cast<char*>(y) + ((image * e_.groups + group) * e_.m * e_.places + first) * size_;
      const void* weights = static_cast<const char*>(w) + group * e_.m * e_.depth * size_;
      const wide::Gemm& product = block + 1 == blocks_ ? last_ : whole_;
      product.run({weights, e_.depth, 1}, {columns, count, 1}, to, e_.places, columns + columns_bytes());
      finish(image, group, first, count, to);
    };
    if (workers() > 1)
      parallel_dynamic(threads_, tasks_, one);
    else
      for (int64_t task = 0; task < tasks_; ++task) one(task, 0);
  }

 private:
  /// Columns that stay in the L2 cache, and some tasks for each thread where there are places enough.
  static int64_t block_of(const Extents& e, int threads) {
    constexpr int64_t elements = int64_t{1} << 16, least = 64;
    const int64_t fitting = std::max(least, elements / std::max<int64_t>(e.depth, 1));
    const int64_t shared = std::max(least, divide_up(e.images * e.groups * e.places, 4 * threads));
    return std::clamp<int64_t>(std::min(fitting, shared), 1, e.places);
  }
  int workers() const { return tasks_ >= threads_ ? threads_ : 1; }
  int share() const { return workers() > 1 ? 1 : threads_; }
  int64_t columns_bytes() const { return aligned(e_.depth * block_ * size_); }
  int64_t product_bytes() const { return aligned(std::max(whole_.workspace(), last_.workspace())); }

  Extents e_;
  int64_t size_, block_, blocks_, tasks_;
  int threads_;
  wide::Gemm whole_, last_;
};

/// The windows of an image as columns: row channel · taps + tap has what that tap sees, less `zero`; 0 outside of the image.
template <class From, class To>
void gather_windows(const ConvProblem& p, const From* image, To zero, int64_t first, int64_t count, To* to) {
  const size_t last = p.window.rank() - 1;
  const int64_t channels = p.c / p.group, plane = elements(p.in), taps = elements(p.window.kernel);
  const int64_t line = p.out[last], width = p.in[last], stride = p.window.stride[last];
  Shape outer(p.out.begin(), p.out.end() - 1), index(last);
  for (int64_t place = first, done = 0; done < count;) {
    const int64_t at = place % line, run = std::min(line - at, count - done);
    for (size_t d = last, rest = static_cast<size_t>(place / line); d-- > 0; rest /= static_cast<size_t>(outer[d]))
      index[d] = static_cast<int64_t>(rest % static_cast<size_t>(outer[d]));
    Shape tap(p.window.rank(), 0);
    for (int64_t k = 0; k < taps; ++k, advance(tap, p.window.kernel)) {
      int64_t row = 0;
      bool inside = true;
      for (size_t d = 0; d < last && inside; ++d) {
        const int64_t i = index[d] * p.window.stride[d] + tap[d] * p.window.dilation[d] - p.window.pad_begin[d];
        inside = i >= 0 && i < p.in[d];
        row = row * p.in[d] + i;
      }
      const int64_t shift = at * stride + tap[last] * p.window.dilation[last] - p.window.pad_begin[last];
      const auto [begin, end] = inside ? points_inside(shift, stride, width, run) : PointsInside{run, run};
      for (int64_t c = 0; c < channels; ++c) {
        To* line_to = to + (c * taps + k) * count + done;
        std::fill(line_to, line_to + begin, To{});
        std::fill(line_to + end, line_to + run, To{});
        if (begin == end) continue;
        const From* from = image + c * plane + row * width + shift;
        if (stride == 1)
          for (int64_t i = begin; i < end; ++i) line_to[i] = static_cast<To>(from[i]) - zero;
        else
          for (int64_t i = begin; i < end; ++i) line_to[i] = static_cast<To>(from[i * stride]) - zero;
      }
    }
    place += run;
    done += run;
  }
}

}  // namespace smelt::ops::conv
