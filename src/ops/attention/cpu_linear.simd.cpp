#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"
#include "ops/attention/simd/linear.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::LinearColumns;

/// What the state is multiplied by at a step, a number for each row.
void decays(const LinearColumns& c, const float* decay) {
  if (!c.decay_of_rows) {
    const F32 all = exp(splat(*decay));
    for_registers(c.key_size, [&](int64_t i, int64_t count) { put(c.scratch + i, all, count); });
    return;
  }
  for_registers(c.key_size, [&](int64_t i, int64_t count) { put(c.scratch + i, exp(get(decay + i, count)), count); });
}

/// Columns [first, first + registers · lanes), or the first `count` of a register.
template <int registers> void columns_of(const LinearColumns& c, int64_t first, int64_t count) {
  const int64_t last = count - (registers - 1) * lanes;  // of the last register
  const auto load_all = [&](const float* p, F32* v) {
    SMELT_UNROLL
    for (int j = 0; j < registers; ++j) v[j] = get(p + j * lanes, j == registers - 1 ? last : int64_t{lanes});
  };
  const auto store_all = [&](float* p, const F32* v) {
    SMELT_UNROLL
    for (int j = 0; j < registers; ++j) put(p + j * lanes, v[j], j == registers - 1 ? last : int64_t{lanes});
  };
  for (int64_t t = 0; t < c.steps; ++t) {
    const float *query = c.query + t * c.query_step, *key = c.key + t * c.key_step;
    if (c.decay) decays(c, c.decay + t * c.decay_step);
    F32 fresh[registers], row[registers];
    load_all(c.value + t * c.value_step + first, fresh);
    float* state = c.state + first;
    if (c.beta) {
      for (int64_t i = 0; i < c.key_size; ++i) {
        load_all(state + i * c.value_size, row);
        const F32 by = splat(c.decay ? -key[i] * c.scratch[i] : -key[i]);
        SMELT_UNROLL
        for (int j = 0; j < registers; ++j) fresh[j] = fma(by, row[j], fresh[j]);
      }
      const F32 by = splat(c.beta[t * c.beta_step]);
      SMELT_UNROLL
      for (int j = 0; j < registers; ++j) fresh[j] = fresh[j] * by;
    }
    F32 result[registers];
    SMELT_UNROLL
    for (int j = 0; j < registers; ++j) result[j] = F32(0);
    for (int64_t i = 0; i < c.key_size; ++i) {
      load_all(state + i * c.value_size, row);
      const F32 k = splat(key[i]), q = splat(query[i] * c.scale), by = splat(c.decay ? c.scratch[i] : 1.0f);
      SMELT_UNROLL
      for (int j = 0; j < registers; ++j) {
        row[j] = fma(k, fresh[j], c.decay ? row[j] * by : row[j]);
        result[j] = fma(q, row[j], result[j]);
      }
      store_all(state + i * c.value_size, row);
    }
    float* to = c.result + t * c.result_step + first;
    store_all(to, result);
    for (int64_t g = 1; g < c.queries; ++g) {
      query += c.key_size, to += c.value_size;
      SMELT_UNROLL
      for (int j = 0; j < registers; ++j) result[j] = F32(0);
      for (int64_t i = 0; i < c.key_size; ++i) {
        load_all(state + i * c.value_size, row);
        const F32 q = splat(query[i] * c.scale);
        SMELT_UNROLL
        for (int j = 0; j < registers; ++j) result[j] = fma(q, row[j], result[j]);
      }
      store_all(to, result);
    }
  }
}

void run(const LinearColumns& c) {
  int64_t first = 0;
  for (; first + 4 * lanes <= c.columns; first += 4 * lanes) columns_of<4>(c, first, 4 * lanes);
  for (; first < c.columns; first += lanes) columns_of<1>(c, first, c.columns - first < lanes ? c.columns - first : lanes);
}

}  // namespace

const ops::LinearTable& linear_table() {
  static constexpr ops::LinearTable table = {run};
  return table;
}

}  // namespace smelt::SMELT_ISA
