// Unary mathematics and predicates. f16 and bf16 compute in float and round once.
#include <cmath>

#include "ops/core/expression.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/reference.h"

namespace smelt::ops {

using expr::Fn;
namespace {

struct Abs : OnNumbers {
  template <class C> C operator()(C a) const {
    if constexpr (std::is_same_v<C, int64_t>)
      return a < 0 ? wrapping_sub<C>(0, a) : a;
    else if constexpr (std::is_integral_v<C>)
      return a;
    else
      return std::abs(a);
  }
};
struct Neg : OnNumbers {
  template <class C> C operator()(C a) const {
    if constexpr (std::is_integral_v<C>)
      return wrapping_sub<C>(0, a);
    else
      return -a;
  }
};
struct Sign : OnNumbers {
  template <class C> C operator()(C a) const { return a > C(0) ? C(1) : a < C(0) ? C(-1) : a; }  // NaN and -0 stay
};
struct Floor : OnFloats {
  auto operator()(auto a) const { return std::floor(a); }
};
struct Ceil : OnFloats {
  auto operator()(auto a) const { return std::ceil(a); }
};
struct Round : OnFloats {
  auto operator()(auto a) const { return std::nearbyint(a); }
};  // half to even
struct Sqrt : OnFloats {
  auto operator()(auto a) const { return std::sqrt(a); }
};
struct Reciprocal : OnFloats {
  auto operator()(auto a) const { return decltype(a)(1) / a; }
};
struct Exp : OnFloats {
  auto operator()(auto a) const { return std::exp(a); }
};
struct Log : OnFloats {
  auto operator()(auto a) const { return std::log(a); }
};
struct Sin : OnFloats {
  auto operator()(auto a) const { return std::sin(a); }
};
struct Cos : OnFloats {
  auto operator()(auto a) const { return std::cos(a); }
};
struct Tan : OnFloats {
  auto operator()(auto a) const { return std::tan(a); }
};
struct Asin : OnFloats {
  auto operator()(auto a) const { return std::asin(a); }
};
struct Acos : OnFloats {
  auto operator()(auto a) const { return std::acos(a); }
};
struct Atan : OnFloats {
  auto operator()(auto a) const { return std::atan(a); }
};
struct Sinh : OnFloats {
  auto operator()(auto a) const { return std::sinh(a); }
};
struct Cosh : OnFloats {
  auto operator()(auto a) const { return std::cosh(a); }
};
struct Tanh : OnFloats {
  auto operator()(auto a) const { return std::tanh(a); }
};
struct Asinh : OnFloats {
  auto operator()(auto a) const { return std::asinh(a); }
};
struct Acosh : OnFloats {
  auto operator()(auto a) const { return std::acosh(a); }
};
struct Atanh : OnFloats {
  auto operator()(auto a) const { return std::atanh(a); }
};
struct Erf : OnFloats {
  auto operator()(auto a) const { return std::erf(a); }
};

struct IsNaN : OnFloats {
  bool operator()(auto a) const { return std::isnan(a); }
};
struct IsInf : OnFloats {
  bool negative, positive;
  explicit IsInf(const Node& n) : negative(n.get_int("detect_negative", 1)), positive(n.get_int("detect_positive", 1)) {}
  bool operator()(auto a) const { return std::isinf(a) && (a < 0 ? negative : positive); }
};

/// The 8-bit formats reach the predicates widened; their NaNs and infinities survive the exact conversion to float.
template <class F> void run_predicate(ComputeContext& c) {
  const Tensor wide = bits(c.in(0).type()) < 16 ? c.in(0).cast(DType::f32) : c.in(0);
  const F f = make_function<F>(c.node);
  for_compute_type<F>(wide.type(), [&]<class C>(C) { map_elements<C>(c.outputs[0], f, wide); });
}

}  // namespace

std::span<const OpRow> math_ops() {
  static constexpr OpRow table[] = {
      {{"Abs", onnx_domain, infer_unary, run_unary<Abs>}, elementwise(Fn::abs)},
      {{"Neg", onnx_domain, infer_unary, run_unary<Neg>}, elementwise(Fn::neg)},
      {{"Sign", onnx_domain, infer_unary, run_unary<Sign>}, elementwise(Fn::sign)},
      {{"Floor", onnx_domain, infer_unary, run_unary<Floor>}, elementwise(Fn::floor)},
      {{"Ceil", onnx_domain, infer_unary, run_unary<Ceil>}, elementwise(Fn::ceil)},
      {{"Round", onnx_domain, infer_unary, run_unary<Round>}, elementwise(Fn::round)},
      {{"Sqrt", onnx_domain, infer_unary, run_unary<Sqrt>}, elementwise(Fn::sqrt, {.autocast = Autocast::fp32})},
      {{"Reciprocal", onnx_domain, infer_unary, run_unary<Reciprocal>},
       elementwise(Fn::reciprocal, {.autocast = Autocast::fp32})},
      {{"Exp", onnx_domain, infer_unary, run_unary<Exp>}, elementwise(Fn::exp, {.autocast = Autocast::fp32})},
      {{"Log", onnx_domain, infer_unary, run_unary<Log>}, elementwise(Fn::log, {.autocast = Autocast::fp32})},
      {{"Sin", onnx_domain, infer_unary, run_unary<Sin>}, elementwise(Fn::sin, {.autocast = Autocast::fp32})},
      {{"Cos", onnx_domain, infer_unary, run_unary<Cos>}, elementwise(Fn::cos, {.autocast = Autocast::fp32})},
      {{"Tan", onnx_domain, infer_unary, run_unary<Tan>}, elementwise(Fn::tan)},
      {{"Asin", onnx_domain, infer_unary, run_unary<Asin>}, elementwise(Fn::asin)},
      {{"Acos", onnx_domain, infer_unary, run_unary<Acos>}, elementwise(Fn::acos)},
      {{"Atan", onnx_domain, infer_unary, run_unary<Atan>}, elementwise(Fn::atan)},
      {{"Sinh", onnx_domain, infer_unary, run_unary<Sinh>}, elementwise(Fn::sinh)},
      {{"Cosh", onnx_domain, infer_unary, run_unary<Cosh>}, elementwise(Fn::cosh)},
      {{"Tanh", onnx_domain, infer_unary, run_unary<Tanh>}, elementwise(Fn::tanh)},
      {{"Asinh", onnx_domain, infer_unary, run_unary<Asinh>}, elementwise(Fn::asinh)},
      {{"Acosh", onnx_domain, infer_unary, run_unary<Acosh>}, elementwise(Fn::acosh)},
      {{"Atanh", onnx_domain, infer_unary, run_unary<Atanh>}, elementwise(Fn::atanh)},
      {{"Erf", onnx_domain, infer_unary, run_unary<Erf>}, elementwise(Fn::erf)},
      {{"IsNaN", onnx_domain, infer_predicate, run_predicate<IsNaN>}, elementwise(Fn::is_nan)},
      {{"IsInf", onnx_domain, infer_predicate, run_predicate<IsInf>}, elementwise({Fn::is_inf, write_is_inf})},
  };
  return table;
}

}  // namespace smelt::ops
