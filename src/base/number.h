// Numbers that a model holds: sizes worked out from them, which must not wrap, and floats read as integers, which must have a value.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace smelt {

/// a · b · …; throws Error with the factors where it is beyond int64_t.
template <std::convertible_to<int64_t>... N> int64_t checked_product(N... factors) {
  int64_t n = 1;
  bool wraps = false;
  ((wraps = __builtin_mul_overflow(n, static_cast<int64_t>(factors), &n) || wraps), ...);
  if (wraps) {
    std::string text;
    ((text += (text.empty() ? "" : " x ") + fmt::format("{}", factors)), ...);
    fail("{} is more than can be counted", text);
  }
  return n;
}

/// a + b + …; throws Error with the terms where it is beyond int64_t.
template <std::convertible_to<int64_t>... N> int64_t checked_sum(N... terms) {
  int64_t n = 0;
  bool wraps = false;
  ((wraps = __builtin_add_overflow(n, static_cast<int64_t>(terms), &n) || wraps), ...);
  if (wraps) {
    std::string text;
    ((text += (text.empty() ? "" : " + ") + fmt::format("{}", terms)), ...);
    fail("{} is more than can be counted", text);
  }
  return n;
}

/// a / b, rounded up; a >= 0, b > 0, and a + b within int64_t.
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The least multiple of b that is not below a, likewise.
constexpr int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

/// Truncates toward zero. Beyond T's range the nearest end of it; NaN gives the lowest value, as x86 converts it to int64_t.
template <std::integral T = int64_t> T truncated(double v) {
  using Limits = std::numeric_limits<T>;
  // The largest T may round up to the next power of two as a double: that one is beyond T.
  if (!(v >= static_cast<double>(Limits::min()))) return Limits::min();
  if (v >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(v);
}

}  // namespace smelt
