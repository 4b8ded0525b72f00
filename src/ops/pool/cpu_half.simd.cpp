#include "ops/pool/simd/rows.h"

namespace smelt::SMELT_ISA {
namespace {

void max(float* __restrict to, const float* __restrict from, int64_t channels) {
  // Written so that a NaN in either operand is kept: the comparison with it is false.
  for (int64_t c = 0; c < channels; ++c) to[c] = to[c] != to[c] || to[c] > from[c] ? to[c] : from[c];
}

void add(float* __restrict to, const float* __restrict from, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
}

void scale(float* to, float factor, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) to[c] *= factor;
}

}  // namespace

const ops::pool::RowFunctions& pool_rows() {
  static constexpr ops::pool::RowFunctions table = {max, add, scale};
  return table;
}

}  // namespace smelt::SMELT_ISA
