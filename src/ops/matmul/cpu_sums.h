// Sums of a product in a thread's memory, to its dense result.
#pragma once

#include "base/value_of.h"
#include "ops/cpu/epilogue.h"

namespace smelt::ops::matmul {

/// Applies the epilogue: in one sweep where tiles could, else by the runner. The result's rows are n apart.
inline void finish_sums(const CpuEpilogue& epilogue, const CpuEpilogue::Runner& runner, const Buffers& b, const igemm::Sums& s,
                        int64_t n) {
  if (!epilogue.simple()) return runner.take(s);
  const CpuEpilogue::Simple& simple = value_of(epilogue.simple(), "the epilogue that tiles apply");
  const float* bias = epilogue.bias().empty() ? nullptr : epilogue.bias().data() + s.column;
  for (int64_t m = 0; m < s.rows; ++m) {
    const int64_t at = (s.row + m) * n + s.column;
    float* y = static_cast<float*>(b.outputs[0]) + at;
    const float* residual =
        simple.residual < 0 ? nullptr : static_cast<const float*>(b.inputs[static_cast<size_t>(simple.residual)]) + at;
    for (int64_t j = 0; j < s.columns; ++j) {
      float v = s.sums[m * s.stride + j];
      if (bias) v += bias[j];
      if (residual) v += residual[j];
      y[j] = igemm::ended(v, simple.end);
    }
  }
}

}  // namespace smelt::ops::matmul
