// ONNX Runtime's activations and FusedConv (com.microsoft). Its other operators stand with the ONNX family they belong to.
#include <cmath>

#include "base/error.h"
#include "ops/conv/conv.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/list_inputs.h"
#include "ops/core/real.h"
#include "ops/registry/operators.h"
#include "ops/rnn/activation.h"

namespace smelt::ops {
namespace {

void infer_gelu(InferContext& c) {
  if (c.has(1)) broadcast_strides(c.shape(1), c.shape(0));
  same_as(c, 0, 0);
}

/// y = f(x + bias), the bias at input 1 where given.
template <class F> void biased(ComputeContext& ctx, F&& f) {
  in_real(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Parameter<T> bias(c.in(1), c.in(0).shape());
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

// x, w, bias?, z?: activation(conv(x, w) + bias + z)
void infer_fused_conv(InferContext& c) {
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(1));
  const Shape y = with_spatial(p.n, p.m, p.out);
  if (c.has(2) && c.shape(2) != Shape{p.m}) fail("B has shape {}, expected [{}]", to_string(c.shape(2)), p.m);
  if (c.has(3) && c.shape(3) != y) fail("Z has shape {}, expected {}", to_string(c.shape(3)), to_string(y));
  c.set(0, type_of(c, 0), y);
}

void run_fused_conv(ComputeContext& ctx) {
  const Activation activate = fused_activation(ctx.node);
  in_real(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(1).shape());
    const T *bias = optional_data<T>(c, 2), *z = optional_data<T>(c, 3);
    T* y = c.outputs[0].data<T>();
    const int64_t plane = elements(p.out);
    convolve<double>(p, c.in(0).data<T>(), c.in(1).data<T>(), [&](int64_t n, int64_t m, const double* sums) {
      for (int64_t i = 0; i < plane; ++i) {
        const int64_t at = (n * p.m + m) * plane + i;
        const double v = sums[i] + static_cast<double>(bias ? bias[m] : T{}) + static_cast<double>(z ? z[at] : T{});
        y[at] = static_cast<T>(activate(v));
      }
    });
  });
}

}  // namespace

std::span<const OpDef> microsoft_ops() {
  static constexpr OpDef table[] = {
      {"Gelu", microsoft_domain, infer_gelu, run_gelu},
      {"BiasGelu", microsoft_domain, infer_gelu, run_gelu},
      {"FastGelu", microsoft_domain, infer_gelu, run_fast_gelu},
      {"QuickGelu", microsoft_domain, infer_gelu, run_quick_gelu},
      {"FusedConv", microsoft_domain, infer_fused_conv, run_fused_conv},
  };
  return table;
}

}  // namespace smelt::ops
