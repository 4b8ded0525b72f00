#pragma once

#include <algorithm>
#include <type_traits>

#include "smelt/dtype.h"

namespace smelt::ops {

/// f(pointer) with a null pointer to the elements' type, one of the four that matrices have.
template <class F> void by_matrix_type(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f(static_cast<float*>(nullptr));
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::f16: return f(static_cast<Half*>(nullptr));
    default: return f(static_cast<BFloat*>(nullptr));
  }
}

/// x, count elements, in f64, in which matrices are computed.
template <class T> void widen(const T* x, int64_t count, double* to) {
  std::transform(x, x + count, to, [](T v) {
    if constexpr (std::is_same_v<T, double>)
      return v;
    else
      return static_cast<double>(static_cast<float>(v));
  });
}

template <class T> T narrowed(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return T(static_cast<float>(v));
}

}  // namespace smelt::ops
