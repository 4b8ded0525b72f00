// One step of an optimiser (ai.onnx.preview.training): Adagrad, Adam, Momentum.
#include <cmath>

#include "base/error.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/family.h"

namespace smelt::ops {
namespace {

constexpr std::string_view training_domain = "ai.onnx.preview.training";

// inputs: rate, count, tensors…, gradients…, then `states` groups of accumulated tensors; outputs: tensors…, those groups…
template <size_t states> void infer_step(InferContext& c) {
  const size_t groups = states + 2;
  if (c.inputs.size() < 2 + groups || (c.inputs.size() - 2) % groups)
    fail("{} inputs, expected 2 and a multiple of {}", c.inputs.size(), groups);
  const size_t n = (c.inputs.size() - 2) / groups;
  if (c.outputs.size() != n * (states + 1)) fail("{} outputs, expected {}", c.outputs.size(), n * (states + 1));
  for (const size_t scalar : {size_t{0}, size_t{1}})
    if (elements(c.shape(scalar)) != 1) fail("input {} has shape {}, expected one element", scalar, to_string(c.shape(scalar)));
  for (size_t i = 0; i < n; ++i) {
    for (size_t g = 0; g < groups; ++g) {
      if (c.shape(2 + g * n + i) != c.shape(2 + i))
        fail("input {} has shape {}, expected {}", 2 + g * n + i, to_string(c.shape(2 + g * n + i)), to_string(c.shape(2 + i)));
    }
    same_as(c, i, 2 + i);
    for (size_t s = 0; s < states; ++s) same_as(c, (s + 1) * n + i, 2 + (s + 2) * n + i);
  }
}

/// Calls f(x, gradient, state, x_new, state_new) for each element; the states are arrays of `states` values.
template <size_t states, class F> void for_elements(ComputeContext& ctx, F&& f) {
  in_float(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const size_t n = (c.inputs.size() - 2) / (states + 2);
    for (size_t i = 0; i < n; ++i) {
      for (int64_t e = 0; e < c.in(2 + i).size(); ++e) {
        double state[states], updated[states], x_new = 0;
        for (size_t s = 0; s < states; ++s) state[s] = static_cast<double>(c.in(2 + (s + 2) * n + i).data<T>()[e]);
        f(static_cast<double>(c.in(2 + i).data<T>()[e]), static_cast<double>(c.in(2 + n + i).data<T>()[e]), state, x_new,
          updated);
        if (c.wants(i)) c.outputs[i].data<T>()[e] = static_cast<T>(x_new);
        for (size_t s = 0; s < states; ++s) {
          if (c.wants((s + 1) * n + i)) c.outputs[(s + 1) * n + i].data<T>()[e] = static_cast<T>(updated[s]);
        }
      }
    }
  });
}

double rate_of(const ComputeContext& c) { return c.in(0).to_doubles().at(0); }
double count_of(const ComputeContext& c) { return static_cast<double>(c.in(1).to_ints().at(0)); }

void run_adagrad(ComputeContext& c) {
  const double rate = rate_of(c) / (1 + count_of(c) * c.node.get_float("decay_factor", 0));
  const double norm = c.node.get_float("norm_coefficient", 0), epsilon = c.node.get_float("epsilon", 1e-6f);
  for_elements<1>(c, [=](double x, double g, const double* h, double& x_new, double* h_new) {
    g += norm * x;
    h_new[0] = h[0] + g * g;
    x_new = x - rate * g / (std::sqrt(h_new[0]) + epsilon);
  });
}

void run_adam(ComputeContext& c) {
  const double alpha = c.node.get_float("alpha", 0.9f), beta = c.node.get_float("beta", 0.999f),
               epsilon = c.node.get_float("epsilon", 1e-6f);
  const double norm = c.node.get_float("norm_coefficient", 0), norm_after = c.node.get_float("norm_coefficient_post", 0),
               t = count_of(c);
  const double rate = t > 0 ? rate_of(c) * std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : rate_of(c);
  for_elements<2>(c, [=](double x, double g, const double* s, double& x_new, double* s_new) {
    g += norm * x;
    s_new[0] = alpha * s[0] + (1 - alpha) * g;
    s_new[1] = beta * s[1] + (1 - beta) * g * g;
    x_new = (1 - norm_after) * (x - rate * s_new[0] / (std::sqrt(s_new[1]) + epsilon));
  });
}

void run_momentum(ComputeContext& c) {
  const double alpha = c.node.get_float("alpha", 0), norm = c.node.get_float("norm_coefficient", 0), rate = rate_of(c);
  const double beta = count_of(c) > 0 ? c.node.get_float("beta", 0) : 1;
  const std::string mode = c.node.get_string("mode", "standard");
  if (mode != "standard" && mode != "nesterov") fail("mode is '{}', expected standard or nesterov", mode);
  const bool nesterov = mode == "nesterov";
  for_elements<1>(c, [=](double x, double g, const double* v, double& x_new, double* v_new) {
    g += norm * x;
    v_new[0] = alpha * v[0] + beta * g;
    x_new = x - rate * (nesterov ? g + alpha * v_new[0] : v_new[0]);
  });
}

}  // namespace

std::span<const OpRow> training_ops() {
  static constexpr OpRow table[] = {
      {{"Adagrad", training_domain, infer_step<1>, run_adagrad}},
      {{"Adam", training_domain, infer_step<2>, run_adam}},
      {{"Momentum", training_domain, infer_step<1>, run_momentum}},
  };
  return table;
}

}  // namespace smelt::ops
