// How elements of a line are ordered.
#pragma once

#include <cmath>
#include <type_traits>

namespace smelt::ops {

/// a comes before b where the largest is first; NaN is larger than every number.
template <class C> bool is_larger(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}
template <class C> bool is_smaller(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

}  // namespace smelt::ops
