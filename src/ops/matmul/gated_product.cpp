#include "ops/matmul/gated_product.h"

#include <cstring>

#include "base/error.h"

namespace smelt::ops::matmul {

Tensor gated_weights(const Tensor& gate, const Tensor& up) {
  if (gate.type() != up.type() || gate.shape() != up.shape() || gate.rank() != 2 || gate.shape()[1] % gate_columns != 0)
    fail("weights of {} and {} are no gate's", to_string(gate.shape()), to_string(up.shape()));
  const int64_t k = gate.shape()[0], n = gate.shape()[1];
  Tensor both = Tensor::empty(gate.type(), {k, 2 * n});
  const auto chunk = static_cast<size_t>(bytes(gate.type(), gate_columns));
  auto* to = static_cast<std::byte*>(both.raw());
  const auto *a = static_cast<const std::byte*>(gate.raw()), *b = static_cast<const std::byte*>(up.raw());
  for (int64_t i = 0; i < k * n / gate_columns; ++i, to += 2 * chunk, a += chunk, b += chunk) {
    std::memcpy(to, a, chunk);
    std::memcpy(to + chunk, b, chunk);
  }
  return both;
}

}  // namespace smelt::ops::matmul
