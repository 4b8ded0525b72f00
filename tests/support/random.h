// Random tensors for tests.
#pragma once

#include <random>

#include "smelt/tensor.h"

namespace smelt {

/// Uniform in [low, high), rounded to the type; the same for the same seed.
inline Tensor random_tensor(DType type, const Shape& shape, uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> next(low, high);
  Tensor t = Tensor::empty(DType::f64, shape);
  for (double& v : t.span<double>()) v = next(engine);
  return type == DType::f64 ? t : t.cast(type);
}

}  // namespace smelt
