#include "ops/matmul/cpu_sums.h"

#include "base/value_of.h"

namespace smelt::ops::matmul {
namespace {

/// y = end(sums + bias + residual), with loops that hold no question.
template <bool has_bias, bool has_residual>
void finish_row(const float* sums, const float* bias, const float* residual, const igemm::Ending& end, int64_t n, float* y) {
  const auto each = [&](auto&& ended) {
    for (int64_t j = 0; j < n; ++j) {
      float v = sums[j];
      if constexpr (has_bias) v += bias[j];
      if constexpr (has_residual) v += residual[j];
      y[j] = ended(v);
    }
  };
  if (end.is_scaled || end.activation == igemm::Activation::hard_swish)
    return each([&](float v) { return igemm::ended(v, end); });
  if (end.activation == igemm::Activation::none) return each([](float v) { return v; });
  each([low = end.low, high = end.high](float v) {  // as igemm::activated
    const float above = low > v ? low : v;
    return high < above ? high : above;
  });
}

}  // namespace

void finish_sums(const CpuEpilogue& epilogue, const CpuEpilogue::Runner& runner, const Buffers& b, const igemm::Sums& s,
                 int64_t n) {
  if (!epilogue.simple()) return runner.take(s);
  const CpuEpilogue::Simple& simple = value_of(epilogue.simple(), "the epilogue that tiles apply");
  const float* bias = epilogue.bias().empty() ? nullptr : epilogue.bias().data() + s.column;
  for (int64_t m = 0; m < s.rows; ++m) {
    const int64_t at = (s.row + m) * n + s.column;
    float* y = static_cast<float*>(b.outputs[0]) + at;
    const float* sums = s.sums + m * s.stride;
    const float* residual =
        simple.residual < 0 ? nullptr : static_cast<const float*>(b.inputs[static_cast<size_t>(simple.residual)]) + at;
    if (bias && residual)
      finish_row<true, true>(sums, bias, residual, simple.end, s.columns, y);
    else if (bias)
      finish_row<true, false>(sums, bias, nullptr, simple.end, s.columns, y);
    else if (residual)
      finish_row<false, true>(sums, nullptr, residual, simple.end, s.columns, y);
    else
      finish_row<false, false>(sums, nullptr, nullptr, simple.end, s.columns, y);
  }
}

}  // namespace smelt::ops::matmul
