// What linear and cubic resizing on the processor add up: an axis's taps, and sums over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/axis_table.h"
#include "ops/resize/resize.h"

namespace smelt::ops {

/// An axis's taps: tap k of place o is number o * most + k. Places of fewer taps than others end in ones of weight 0.
template <class W> struct AxisTapsIn {
  int64_t places = 0, most = 1;
  std::vector<int32_t> from;
  std::vector<W> weights;
};
using AxisTaps = AxisTapsIn<float>;

template <class W = float> AxisTapsIn<W> axis_taps(const Node& n, const ResizeAxis& axis, const std::string& transformation) {
  const bool itself = axis.scale == 1 && axis.in == axis.out;
  check_axis_table(axis.out, 128);  // taps in lists of their own, then side by side
  std::vector<std::vector<ResizeTap>> taps;
  AxisTapsIn<W> t;
  t.places = axis.out;
  for (int64_t o = 0; o < axis.out; ++o) {
    taps.push_back(itself ? std::vector<ResizeTap>{{o, 1}} : resize_taps(n, axis, resize_coordinate(axis, transformation, o)));
    t.most = std::max<int64_t>(t.most, static_cast<int64_t>(taps.back().size()));
  }
  for (std::vector<ResizeTap>& place : taps) {
    place.resize(static_cast<size_t>(t.most));
    for (const ResizeTap& tap : place) {
      t.from.push_back(static_cast<int32_t>(tap.place));
      t.weights.push_back(static_cast<W>(tap.weight));
    }
  }
  return t;
}

/// to = Σ weight * from, `count` elements, over the taps of a place; the rows of `from` lie `step` elements apart.
template <class W> void sum_lines(W* to, const W* from, int64_t step, int64_t count, const AxisTapsIn<W>& taps, int64_t place) {
  bool first = true;
  for (int64_t k = 0; k < taps.most; ++k) {
    const auto tap = static_cast<size_t>(place * taps.most + k);
    const W w = taps.weights[tap];
    if (w == 0) continue;  // an infinity there would become a NaN
    const W* line = from + taps.from[tap] * step;
    if (first)
      for (int64_t i = 0; i < count; ++i) to[i] = w * line[i];
    else
      for (int64_t i = 0; i < count; ++i) to[i] += w * line[i];
    first = false;
  }
  if (first) std::fill_n(to, count, W{});  // all taps outside of an image, which exclude_outside leaves out
}

/// The same of single elements side by side: to[o] = Σ weight * line[from], over `most` taps where that is not 0.
template <int most, class W> void sum_elements(W* to, const W* line, const AxisTapsIn<W>& taps) {
  const int64_t count = most ? most : taps.most;
  const int32_t* from = taps.from.data();
  const W* weights = taps.weights.data();
  for (int64_t o = 0; o < taps.places; ++o, from += count, weights += count) {
    W sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const W product = weights[k] * line[from[k]];
      sum += weights[k] == 0 ? 0 : product;
    }
    to[o] = sum;
  }
}

template <class W> void sum_elements(W* to, const W* line, const AxisTapsIn<W>& taps) {
  switch (taps.most) {
    case 1: return sum_elements<1>(to, line, taps);
    case 2: return sum_elements<2>(to, line, taps);
    case 4: return sum_elements<4>(to, line, taps);
    default: return sum_elements<0>(to, line, taps);
  }
}

}  // namespace smelt::ops
