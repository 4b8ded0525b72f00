// Products of 8-bit integers: what kernels read of them, and their tactics.
#pragma once

#include <optional>
#include <string>

#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

/// The product of a node of 8-bit integers. Refused where a parameter is computed: but the zero points of MatMulInteger.
Result<Product> int8_product(const BoundNode& node);

/// Element [k, n] of b less its zero point.
inline int16_t int8_weight(const Product& p, int64_t k, int64_t n) {
  return p.quantization().less_zero(p.bound.inputs[p.b].constant, k * p.b_row + n * p.b_column, n);
}

/// The reason why no 8-bit kernel of the processor's takes its tensors; nothing when they may. `wraps`: the kernel's sums wrap at 32 bits, as
/// the operators' own do (multiply_integers), so that it takes any K.
std::optional<Refusal> rejects_int8_tensors(const Product& p, bool wraps = false);
/// The same of the kernels whose right operand is packed before the run.
std::optional<Refusal> rejects_int8(const Product& p, bool wraps = false);

void offer_int8_indirect(const Product& q, int threads, Offer& offer);         // "avx2": exact, 16-bit pairs
void offer_int8_packed_in_run(const Product& q, int threads, Offer& offer);    // "avx2": of a computed right operand
void offer_int8_shallow(const Product& q, int threads, Offer& offer);          // "avx2": of little depth, packed or not
void offer_int8_onednn(const Product& q, int threads, Offer& offer);           // "onednn": exact sums where the CPU has them
void offer_int8_onednn_computed(const Product& q, int threads, Offer& offer);  // "onednn": of a computed right operand

/// Of 8-bit integers: all of them, in the order in which they are offered.
inline constexpr void (*int8_cpu_tactics[])(const Product& q, int threads, Offer& offer) = {
    offer_int8_indirect, offer_int8_packed_in_run, offer_int8_shallow, offer_int8_onednn, offer_int8_onednn_computed};

}  // namespace smelt::ops::matmul
