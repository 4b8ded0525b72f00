// Some columns of LinearAttention's state through all steps; for *.simd.cpp sources and the driver (ops/attention/cpu_linear.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops {

/// Columns of a head's state do not see each other. Steps between rows of all tensors are in elements.
struct LinearColumns {
  const float *query, *key, *value;  // of the first step; the query's heads lie key_size apart
  const float *decay, *beta;         // null: none; beta is one number a step
  int64_t query_step, key_step, value_step, decay_step, beta_step, result_step;
  bool decay_of_rows;  // a number for each row of the state, else one for all
  int64_t steps, queries, key_size, value_size;
  float scale;
  float* state;  // rows value_size apart; as it is before the first step, and then after the last
  float* result;
  float* scratch;  // key_size, rounded up to a whole register of 16
  int64_t columns;
};

struct LinearTable {
  void (*run)(const LinearColumns& c);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::LinearTable& linear_table();
}
namespace smelt::avx2 {
const ops::LinearTable& linear_table();
}
