// How elements fold into a result on the processor, and what becomes of what they fold to.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/reduce/cpu_reduce.h"

namespace smelt::ops {

inline Fold fold_of(ReduceKind k) {
  switch (k) {
    case ReduceKind::sum:
    case ReduceKind::mean: return Fold::sum;
    case ReduceKind::max: return Fold::max;
    case ReduceKind::min: return Fold::min;
    case ReduceKind::prod: return Fold::product;
    default: return Fold::squares;
  }
}
/// How results of parts fold.
inline Fold joining(Fold f) { return f == Fold::squares ? Fold::sum : f; }

template <class T> T identity(Fold f) {
  constexpr bool infinite = std::numeric_limits<T>::has_infinity;
  switch (f) {
    case Fold::max: return infinite ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    case Fold::min: return infinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    case Fold::product: return T(1);
    default: return T(0);
  }
}

/// Integers wrap.
template <class T> T joined(Fold f, T a, T b) {
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (f) {
    case Fold::product: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Fold::max: return b > a || b != b ? b : a;
    case Fold::min: return b < a || b != b ? b : a;
    default: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <class T> const FoldsOf<T>& folds_of() {
  if constexpr (std::is_same_v<T, float>) return folds().f32;
  if constexpr (std::is_same_v<T, double>) return folds().f64;
  if constexpr (std::is_same_v<T, int32_t>) return folds().i32;
  if constexpr (std::is_same_v<T, int8_t>) return folds().i8;
  if constexpr (std::is_same_v<T, uint8_t>) return folds().u8;
  if constexpr (std::is_same_v<T, int64_t>) return folds().i64;
}

/// What a fold's results end in: a mean's division, the root of squares, a bool's 0 or 1.
class FoldEnd {
 public:
  FoldEnd(ReduceKind kind, DType type, int64_t count) : kind_(kind), type_(type), count_(count) {}

  template <class T> T finished(T v) const {
    const int64_t count = count_;
    if (kind_ == ReduceKind::mean && std::is_integral_v<T>) return count == 0 ? T(0) : static_cast<T>(v / count);
    if (kind_ == ReduceKind::mean) return static_cast<T>(v / static_cast<T>(count));
    if (kind_ != ReduceKind::l2) return v;
    return v < T(0) ? T(0) : static_cast<T>(std::sqrt(static_cast<double>(v)));  // a sum of integers that has wrapped has none
  }
  template <class T> void finish(T* v, int64_t n) const {
    if (type_ == DType::boolean)
      for (int64_t i = 0; i < n; ++i) v[i] = v[i] != 0 ? T(1) : T(0);
    if (kind_ != ReduceKind::mean && kind_ != ReduceKind::l2) return;
    int64_t i = 0;
    if constexpr (std::is_floating_point_v<T>)
      if (kind_ == ReduceKind::mean) i = divide(v, n, static_cast<T>(count_));
    for (; i < n; ++i) v[i] = finished(v[i]);
  }

 private:
  /// Whole registers of the first of n, each element by the processor's division; how many that are.
  template <class T> static int64_t divide(T* v, int64_t n, T by) {
    typedef T Several __attribute__((vector_size(16)));
    constexpr int64_t several = 16 / sizeof(T);
    int64_t i = 0;
    for (; i + several <= n; i += several) {
      Several x;
      std::memcpy(&x, v + i, sizeof x);
      x /= by;
      std::memcpy(v + i, &x, sizeof x);
    }
    return i;
  }

  ReduceKind kind_;
  DType type_;
  int64_t count_;  // elements of a result
};

}  // namespace smelt::ops
