// Binary and variadic arithmetic. Integers wrap at their width; an integer divided by zero is 0, as numpy has it.
#include <cmath>

#include "base/error.h"
#include "ops/core/expression.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/reference.h"

namespace smelt::ops {

using expr::Fn;
namespace {

struct Add : OnNumbers {
  auto operator()(auto a, auto b) const { return wrapping_add(a, b); }
};
struct Sub : OnNumbers {
  auto operator()(auto a, auto b) const { return wrapping_sub(a, b); }
};
struct Mul : OnNumbers {
  auto operator()(auto a, auto b) const { return wrapping_mul(a, b); }
};
struct Div : OnNumbers {
  template <class C> C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      if (b == C(0)) return 0;
      if (b == C(-1) && std::is_signed_v<C>) return wrapping_sub<C>(0, a);
    }
    return a / b;
  }
};

struct Mod : OnNumbers {
  bool truncated;  // fmod: the sign of the dividend; otherwise that of the divisor
  explicit Mod(const Node& n) : truncated(n.get_int("fmod", 0) != 0) {}
  template <class C> C operator()(C a, C b) const {
    C r;
    if constexpr (std::is_integral_v<C>) {
      if (b == C(0) || b == C(-1)) return std::is_signed_v<C> || b == C(0) ? C(0) : a % b;
      r = a % b;
    } else {
      r = std::fmod(a, b);
      if (!truncated && r == C(0)) return std::copysign(r, b);
    }
    return !truncated && r != C(0) && (r < C(0)) != (b < C(0)) ? r + b : r;
  }
};

/// NaN wins over numbers, as in numpy.
struct Min : OnNumbers {
  explicit Min(size_t) {}
  template <class C> C operator()(C a, C b) const { return b < a || b != b ? b : a; }
  template <class C> C finish(C a) const { return a; }
};
struct Max : OnNumbers {
  explicit Max(size_t) {}
  template <class C> C operator()(C a, C b) const { return a < b || b != b ? b : a; }
  template <class C> C finish(C a) const { return a; }
};
struct Sum : OnNumbers {
  explicit Sum(size_t) {}
  template <class C> C operator()(C a, C b) const { return wrapping_add(a, b); }
  template <class C> C finish(C a) const { return a; }
};
struct Mean : Sum {
  double count;
  explicit Mean(size_t n) : Sum(n), count(static_cast<double>(n)) {}
  template <class C> C finish(C a) const { return a / static_cast<C>(count); }
};

void infer_variadic(InferContext& c) {
  const DType type = type_of(c, 0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (type_of(c, i) != type)
      fail("inputs 0 and {} have the types {} and {}, expected one type", i, name(type), name(c.in(i).type));
  }
  infer_broadcast(c, type, c.inputs.size());
}

template <class F> void run_variadic(ComputeContext& c) {
  const F f(c.inputs.size());
  Tensor& out = c.outputs[0];
  for_compute_type<F>(out.type(), [&]<class C>(C) {
    std::vector<OperandStream<C>> operands;
    for (const Tensor& t : c.inputs) operands.emplace_back(t, out.shape());
    std::array<C, pointwise_block> total;
    for (int64_t begin = 0; begin < out.size(); begin += pointwise_block) {
      const int64_t n = std::min(pointwise_block, out.size() - begin);
      std::copy_n(operands[0].next(n), n, total.data());
      for (size_t k = 1; k < operands.size(); ++k) {
        const C* next = operands[k].next(n);
        for (int64_t i = 0; i < n; ++i) total[i] = f(total[i], next[i]);
      }
      for (int64_t i = 0; i < n; ++i) total[i] = f.finish(total[i]);
      store(out, begin, n, total.data());
    }
  });
}

/// Of a base without a sign, which wraps as one that has it.
uint64_t whole_power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return static_cast<int64_t>(whole_power(static_cast<uint64_t>(base), static_cast<uint64_t>(exponent)));
  if (base == 1 || base == -1) return exponent % 2 == 0 ? 1 : base;  // 1 / base^|exponent|, truncated
  return 0;
}

/// The result has the base's type, whatever the exponent's.
void infer_pow(InferContext& c) {
  const DType base = type_of(c, 0), exponent = type_of(c, 1);
  for (size_t i = 0; i < 2; ++i)
    if (!is_float(c.in(i).type) && !is_integer(c.in(i).type))
      fail("input {} has type {}, expected numbers", i, name(c.in(i).type));
  // Negative powers of all others are those of an i64. ONNX has no base without a sign.
  if (base == DType::u64 && is_integer(exponent) && is_signed(exponent))
    fail("the base has type u64 and the exponent {}, expected an exponent without a sign", name(exponent));
  infer_broadcast(c, base, 2);
}

void run_pow(ComputeContext& c) {
  const Tensor &base = c.in(0), &exponent = c.in(1);
  const auto power = [](auto a, auto b) { return std::pow(a, b); };
  if (is_integer(base.type()) && exponent.type() == DType::u64)
    return map_elements<uint64_t>(c.outputs[0], whole_power, base, exponent);
  if (is_integer(base.type()) && is_integer(exponent.type()))
    return map_elements<int64_t>(c.outputs[0], integer_power, base, exponent);
  const bool exact = bits(exponent.type()) <= (is_integer(exponent.type()) ? 16 : 32);  // in f32
  if (exact && compute_class(base.type(), "Pow") == ComputeClass::f32)
    return map_elements<float>(c.outputs[0], power, base, exponent);
  map_elements<double>(c.outputs[0], power, base, exponent);
}

struct BitShift : OnIntegers {
  bool left;
  explicit BitShift(const Node& n) {
    const std::string direction = n.get_string("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") fail("direction is '{}', expected 'LEFT' or 'RIGHT'", direction);
    left = direction == "LEFT";
  }
  /// Operands are widened to 64 bits with their sign, so shifting out of a narrow type needs no case of its own.
  template <class C> C operator()(C a, C by) const {
    const bool out = by < C(0) || by > C(63);
    if (left) return out ? C(0) : static_cast<C>(static_cast<uint64_t>(a) << by);
    return out ? (a < C(0) ? C(-1) : C(0)) : static_cast<C>(a >> by);
  }
};

void infer_bit_shift(InferContext& c) {
  const BitShift of_node(c.node);  // throws where its attribute says nothing
  infer_binary(c);
}
struct BitwiseAnd : OnIntegers {
  auto operator()(auto a, auto b) const { return a & b; }
};
struct BitwiseOr : OnIntegers {
  auto operator()(auto a, auto b) const { return a | b; }
};
struct BitwiseXor : OnIntegers {
  auto operator()(auto a, auto b) const { return a ^ b; }
};
struct BitwiseNot : OnIntegers {
  auto operator()(auto a) const { return ~a; }
};

/// Bounds are inputs 1 and 2 (scalars), or the attributes min and max of opsets below 11.
template <class C> struct Bounds {
  bool has_low = false, has_high = false;
  C low{}, high{};
  explicit Bounds(const ComputeContext& c) {
    has_low = take(c, 1, "min", low);
    has_high = take(c, 2, "max", high);
  }
  static bool take(const ComputeContext& c, size_t input, const char* attr, C& bound) {
    if (c.has(input)) {
      if (c.in(input).size() != 1) fail("input {} has shape {}, expected a scalar", input, to_string(c.in(input).shape()));
      load(c.in(input), 0, 1, 1, &bound);
      return true;
    }
    if (!c.node.has(attr)) return false;
    const Tensor value = Tensor::scalar(c.node.get_float(attr, 0));
    load(value, 0, 1, 1, &bound);
    return true;
  }
  /// A bound that is NaN gives NaN, as Min and Max do.
  C operator()(C a) const {
    if (has_low && (a < low || low != low)) a = low;
    if (has_high && (a > high || high != high)) a = high;
    return a;
  }
};

void infer_clip(InferContext& c) {
  for (size_t i = 1; i < 3; ++i) {
    if (!c.has(i)) continue;
    if (c.in(i).shape_known && elements(c.shape(i)) != 1)
      fail("input {} has shape {}, expected a scalar", i, to_string(c.shape(i)));
    if (c.in(i).type != type_of(c, 0))
      fail("inputs 0 and {} have the types {} and {}, expected one type", i, name(c.in(0).type), name(c.in(i).type));
  }
  infer_unary(c);
}

void run_clip(ComputeContext& c) {
  dispatch_compute(c.in(0).type(), "Clip", [&]<class C>(C) { map_elements<C>(c.outputs[0], Bounds<C>(c), c.in(0)); });
}

}  // namespace

std::span<const OpRow> arithmetic_ops() {
  static constexpr OpRow table[] = {
      {{"Add", onnx_domain, infer_binary, run_binary<Add>}, broadcasting(Fn::add)},
      {{"Sub", onnx_domain, infer_binary, run_binary<Sub>}, broadcasting(Fn::sub)},
      {{"Mul", onnx_domain, infer_binary, run_binary<Mul>}, broadcasting(Fn::mul)},
      {{"Div", onnx_domain, infer_binary, run_binary<Div>}, broadcasting(Fn::div)},
      {{"Mod", onnx_domain, infer_binary, run_binary<Mod>}, broadcasting({Fn::fmod, write_mod, 2})},
      {{"Pow", onnx_domain, infer_pow, run_pow},
       broadcasting({Fn::pow, write_pow, 2, mixed_types}, {.autocast = Autocast::fp32})},
      {{"Min", onnx_domain, infer_variadic, run_variadic<Min>}, broadcasting({Fn::min, write_fold<Fn::min>})},
      {{"Max", onnx_domain, infer_variadic, run_variadic<Max>}, broadcasting({Fn::max, write_fold<Fn::max>})},
      {{"Sum", onnx_domain, infer_variadic, run_variadic<Sum>}, broadcasting({Fn::add, write_fold<Fn::add>})},
      {{"Mean", onnx_domain, infer_variadic, run_variadic<Mean>}, broadcasting({Fn::reciprocal, write_mean})},
      {{"Clip", onnx_domain, infer_clip, run_clip}, elementwise({Fn::clip, write_clip})},
      {{"BitShift", onnx_domain, infer_bit_shift, run_binary<BitShift>}, broadcasting({Fn::bit_and, write_bit_shift, 2})},
      {{"BitwiseAnd", onnx_domain, infer_binary, run_binary<BitwiseAnd>}, broadcasting(Fn::bit_and)},
      {{"BitwiseOr", onnx_domain, infer_binary, run_binary<BitwiseOr>}, broadcasting(Fn::bit_or)},
      {{"BitwiseXor", onnx_domain, infer_binary, run_binary<BitwiseXor>}, broadcasting(Fn::bit_xor)},
      {{"BitwiseNot", onnx_domain, infer_unary, run_unary<BitwiseNot>}, elementwise(Fn::bit_not)},
  };
  return table;
}

}  // namespace smelt::ops
