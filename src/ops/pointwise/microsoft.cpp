// ONNX Runtime's activations (com.microsoft).
#include <cmath>

#include "base/error.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/expression.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/pointwise/family.h"

namespace smelt::ops {

using expr::Fn;
namespace {

void infer_gelu(InferContext& c) {
  if (c.has(1)) broadcast_strides(c.shape(1), c.shape(0));
  same_as(c, 0, 0);
}

/// y = f(x + bias), the bias at input 1 where given.
template <class F> void biased(ComputeContext& ctx, F&& f) {
  in_float(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const BroadcastOperand<T> bias(c.in(1), c.in(0).shape());
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    for (int64_t i = 0; i < c.in(0).size(); ++i)
      y[i] = static_cast<T>(f(static_cast<double>(x[i]) + static_cast<double>(bias.at(i, 0))));
  });
}

void run_gelu(ComputeContext& c) {
  biased(c, [](double v) { return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5))); });
}
void run_fast_gelu(ComputeContext& c) {
  biased(c, [](double v) { return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); });  // sqrt(2 / pi)
}
void run_quick_gelu(ComputeContext& c) {
  const double alpha = c.node.get_float("alpha", 1.702f);
  biased(c, [alpha](double v) { return v / (1 + std::exp(-alpha * v)); });
}

}  // namespace

std::span<const OpRow> microsoft_activation_ops() {
  static constexpr OpRow table[] = {
      {{"Gelu", microsoft_domain, infer_gelu, run_gelu}, elementwise({Fn::gelu, write_gelu}, {.flops = {.of_output = 5}})},
      {{"BiasGelu", microsoft_domain, infer_gelu, run_gelu},
       elementwise({Fn::gelu, write_bias_gelu, 2}, {.flops = {.of_output = 6}})},
      {{"FastGelu", microsoft_domain, infer_gelu, run_fast_gelu},
       elementwise({Fn::gelu, write_fast_gelu}, {.flops = {.of_output = 8}})},
      {{"QuickGelu", microsoft_domain, infer_gelu, run_quick_gelu},
       elementwise({Fn::swish, write_quick_gelu}, {.flops = {.of_output = 4}})},
  };
  return table;
}

}  // namespace smelt::ops
