// Few lines of few elements that fold to as many results: without the calls for each that longer lines pay.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "ops/reduce/cpu_fold.h"
#include "ops/reduce/cpu_nest.h"

namespace smelt::ops {

/// Of lines of at most 16 elements, along one reduced axis or two, of which a result has few.
class SmallFolds {
 public:
  /// Nothing where the nest is another. `in_place`: of the first operand, where it lies, instead of lines that are gathered.
  static std::optional<SmallFolds> of(const FoldNest& nest, bool in_place) {
    constexpr int64_t most_elements = 16, most = 128;
    const size_t n = nest.extents.size();
    if ((n != 3 && n != 4) || nest.reduced[0] || !nest.reduced[1] || !nest.reduced[n - 2] || nest.reduced[n - 1] ||
        nest.inner() > most_elements || nest.inner() * nest.count > most)
      return std::nullopt;
    SmallFolds small;
    small.in_place_ = in_place;
    small.inner_ = nest.inner();
    const Shape& s = nest.strides[0];
    for (int64_t r = 0; r < nest.count; ++r)
      small.offsets_.push_back(!in_place ? r * nest.inner()
                               : n == 3  ? r * s[1]
                                         : r / nest.extents[2] * s[1] + r % nest.extents[2] * s[2]);
    return small;
  }

  bool in_place() const { return in_place_; }

  /// Of `some` results' lines, `around` elements from one's to the next one's and `step` from element to element.
  template <class T> void fold(Fold how, const T* x, int64_t around, int64_t step, int64_t some, T* results) const {
    const int64_t n = inner_;
    const std::span<const int64_t> offsets = offsets_;
    const auto each = [&](auto result_of) {
      for (int64_t k = 0; k < some; ++k)
        for (int64_t i = 0; i < n; ++i) results[k * n + i] = result_of(x + k * around + i * step);
    };
    const auto fold = [&](Fold f, auto value) {
      each([&](const T* from) {
        T total = value(from[0]);
        for (const int64_t offset : offsets.subspan(1)) total = joined(f, total, value(from[offset]));
        return total;
      });
    };
    const auto itself = [](T v) { return v; };
    switch (how) {
      case Fold::sum: fold(Fold::sum, itself); break;
      case Fold::product: fold(Fold::product, itself); break;
      case Fold::squares: fold(Fold::sum, [](T v) { return joined(Fold::product, v, v); }); break;
      case Fold::max: each([&](const T* from) { return extreme_of<true>(from, offsets); }); break;
      case Fold::min: each([&](const T* from) { return extreme_of<false>(from, offsets); });
    }
  }

 private:
  /// A NaN wins, without a branch for each element.
  template <bool largest, class T> static T extreme_of(const T* x, std::span<const int64_t> offsets) {
    T total = x[0];
    bool odd = total != total;
    for (const int64_t offset : offsets.subspan(1)) {
      const T v = x[offset];
      odd |= v != v;
      total = (largest ? v > total : v < total) ? v : total;
    }
    return odd ? std::numeric_limits<T>::quiet_NaN() : total;
  }

  bool in_place_ = false;
  int64_t inner_ = 0;             // results of a place: elements of a line
  std::vector<int64_t> offsets_;  // where a result's elements lie behind its first one
};

}  // namespace smelt::ops
