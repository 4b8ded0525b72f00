// Activation functions, with ONNX's default parameters.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/expression.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/reference.h"

namespace smelt::ops {

using expr::Fn;
namespace {

template <class C> C softplus(C a) { return std::max(a, C(0)) + std::log1p(std::exp(-std::abs(a))); }
template <class C> C sigmoid(C a) {  // the exponential never overflows
  const C e = std::exp(-std::abs(a));
  return (a >= C(0) ? C(1) : e) / (C(1) + e);
}

struct Relu : OnNumbers {
  auto operator()(auto a) const { return a < decltype(a)(0) ? decltype(a)(0) : a; }
};
struct Sigmoid : OnFloats {
  auto operator()(auto a) const { return std::isnan(a) ? a : sigmoid(a); }
};
struct Softplus : OnFloats {
  auto operator()(auto a) const { return std::isnan(a) ? a : softplus(a); }
};
struct Softsign : OnFloats {
  auto operator()(auto a) const { return a / (decltype(a)(1) + std::abs(a)); }
};
struct Mish : OnFloats {
  auto operator()(auto a) const { return a * std::tanh(softplus(a)); }
};
struct HardSwish : OnFloats {
  template <class C> C operator()(C a) const { return a * std::max(std::min(a / C(6) + C(0.5), C(1)), C(0)); }
};

/// A parameter attribute in double: attributes are floats, and their value is exact in whatever the operator computes.
struct Alpha {
  double alpha;
  Alpha(const Node& n, float otherwise) : alpha(n.get_float("alpha", otherwise)) {}
};
struct Swish : OnFloats, Alpha {
  explicit Swish(const Node& n) : Alpha(n, 1.0f) {}
  template <class C> C operator()(C a) const { return a * sigmoid(C(alpha) * a); }
};
struct Elu : OnFloats, Alpha {
  explicit Elu(const Node& n) : Alpha(n, 1.0f) {}
  template <class C> C operator()(C a) const { return a < C(0) ? C(alpha) * std::expm1(a) : a; }
};
struct Celu : OnFloats, Alpha {
  explicit Celu(const Node& n) : Alpha(n, 1.0f) {}
  template <class C> C operator()(C a) const {
    return std::max(a, C(0)) + std::min(C(alpha) * std::expm1(a / C(alpha)), C(0));  // in this order a NaN stays
  }
};
constexpr float selu_alpha = 1.67326319217681884765625f, selu_gamma = 1.05070102214813232421875f;
struct Selu : OnFloats, Alpha {
  double gamma;
  explicit Selu(const Node& n) : Alpha(n, selu_alpha), gamma(n.get_float("gamma", selu_gamma)) {}
  template <class C> C operator()(C a) const { return C(gamma) * (a > C(0) ? a : C(alpha) * std::expm1(a)); }
};
struct LeakyRelu : OnFloats, Alpha {
  explicit LeakyRelu(const Node& n) : Alpha(n, 0.01f) {}
  template <class C> C operator()(C a) const { return a < C(0) ? C(alpha) * a : a; }
};
struct ThresholdedRelu : OnFloats, Alpha {
  explicit ThresholdedRelu(const Node& n) : Alpha(n, 1.0f) {}
  template <class C> C operator()(C a) const { return a > C(alpha) ? a : C(0); }
};
struct HardSigmoid : OnFloats, Alpha {
  double beta;
  explicit HardSigmoid(const Node& n) : Alpha(n, 0.2f), beta(n.get_float("beta", 0.5f)) {}
  template <class C> C operator()(C a) const { return std::max(std::min(C(alpha) * a + C(beta), C(1)), C(0)); }
};
struct Shrink : OnNumbers {
  double bias, lambda;
  /// a + by; an integer moves by a whole number, as ONNX computes in the element type.
  template <class C> static C shifted(C a, double by) {
    if constexpr (std::is_integral_v<C>)
      return wrapping_add(a, static_cast<C>(std::isnan(by) ? 0 : static_cast<int64_t>(std::clamp(by, -1e18, 1e18))));
    else
      return a + C(by);
  }
  explicit Shrink(const Node& n) : bias(n.get_float("bias", 0.0f)), lambda(n.get_float("lambd", 0.5f)) {}
  template <class C> C operator()(C a) const {
    const double v = static_cast<double>(a);
    if (v < -lambda) return shifted(a, bias);
    if (v > lambda) return shifted(a, -bias);
    return std::isnan(v) ? a : C(0);
  }
};
struct Gelu : OnFloats {
  bool tanh_form;
  explicit Gelu(const Node& n) {
    const std::string form = n.get_string("approximate", "none");
    if (form != "none" && form != "tanh") fail("approximate is '{}', expected 'none' or 'tanh'", form);
    tanh_form = form == "tanh";
  }
  template <class C> C operator()(C a) const {
    const C inner = tanh_form ? std::tanh(C(0.79788456080286535588) * (a + C(0.044715) * a * a * a))
                              : std::erf(a * C(0.70710678118654752440));
    return C(0.5) * a * (C(1) + inner);
  }
};

void infer_gelu(InferContext& c) {
  const Gelu of_node(c.node);  // throws where its attribute says nothing
  infer_unary(c);
}

struct SwiGLU : Swish {
  using Swish::Swish;
  template <class C> C operator()(C gate, C linear) const { return Swish::operator()(gate) * linear; }
};

struct PRelu : OnNumbers {
  template <class C> C operator()(C a, C slope) const { return a < C(0) ? wrapping_mul(a, slope) : a; }
};

/// Slope broadcasts to x only (unidirectionally).
void infer_prelu(InferContext& c) {
  infer_binary(c);
  if (c.in(0).shape_known && c.in(1).shape_known) broadcast_strides(c.shape(1), c.shape(0));
}

}  // namespace

std::span<const OpRow> activation_ops() {
  static constexpr OpRow table[] = {
      {{"Relu", onnx_domain, infer_unary, run_unary<Relu>}, elementwise(Fn::relu)},
      {{"Sigmoid", onnx_domain, infer_unary, run_unary<Sigmoid>}, elementwise(Fn::sigmoid, {.flops = {.of_output = 3}})},
      {{"Softplus", onnx_domain, infer_unary, run_unary<Softplus>},
       elementwise(Fn::softplus, {.flops = {.of_output = 3}, .autocast = Autocast::fp32})},
      {{"Softsign", onnx_domain, infer_unary, run_unary<Softsign>}, elementwise(Fn::softsign)},
      {{"Mish", onnx_domain, infer_unary, run_unary<Mish>}, elementwise(Fn::mish, {.flops = {.of_output = 5}})},
      {{"HardSwish", onnx_domain, infer_unary, run_unary<HardSwish>}, elementwise(Fn::hard_swish, {.flops = {.of_output = 5}})},
      {{"Swish", onnx_domain, infer_unary, run_unary<Swish>}, elementwise({Fn::swish, write_swish})},
      {{"Elu", onnx_domain, infer_unary, run_unary<Elu>}, elementwise({Fn::elu, {"alpha", 1}})},
      {{"Celu", onnx_domain, infer_unary, run_unary<Celu>}, elementwise({Fn::celu, {"alpha", 1}})},
      {{"Selu", onnx_domain, infer_unary, run_unary<Selu>},
       elementwise({Fn::selu, {"alpha", selu_alpha}, {"gamma", selu_gamma}})},
      {{"LeakyRelu", onnx_domain, infer_unary, run_unary<LeakyRelu>}, elementwise({Fn::leaky_relu, {"alpha", 0.01f}})},
      {{"ThresholdedRelu", onnx_domain, infer_unary, run_unary<ThresholdedRelu>},
       elementwise({Fn::thresholded_relu, {"alpha", 1}})},
      {{"HardSigmoid", onnx_domain, infer_unary, run_unary<HardSigmoid>},
       elementwise({Fn::hard_sigmoid, {"alpha", 0.2f}, {"beta", 0.5f}}, {.flops = {.of_output = 4}})},
      {{"Shrink", onnx_domain, infer_unary, run_unary<Shrink>}, elementwise({Fn::sub, write_shrink})},
      {{"Gelu", onnx_domain, infer_gelu, run_unary<Gelu>}, elementwise({Fn::gelu, write_gelu}, {.flops = {.of_output = 5}})},
      {{"SwiGLU", onnx_domain, infer_binary, run_binary<SwiGLU>},
       broadcasting({Fn::swiglu, {"alpha", 1}}, {.flops = {.of_output = 5}})},
      {{"PRelu", onnx_domain, infer_prelu, run_binary<PRelu>}, elementwise(Fn::leaky_relu)},
  };
  return table;
}

}  // namespace smelt::ops
