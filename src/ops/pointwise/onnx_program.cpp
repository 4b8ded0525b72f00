#include "ops/pointwise/onnx_program.h"

#include <algorithm>
#include <array>

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;
using expr::Ref;

/// A function that is the operator itself: functions.def's ONNX form is one operator over all arguments and nothing else.
std::optional<Fn> same_function(const Node& n, bool integers) {
  for (Fn fn : expr::functions()) {
    std::string_view form = expr::info(fn).onnx;
    // The first of two forms is the operator itself where ONNX has it for floats; what it has for integers is the same function.
    if (const size_t bar = form.find('|'); bar != form.npos)
      form = integers && n.op != "Neg" ? form.substr(bar + 1) : form.substr(0, bar);
    static constexpr std::array arguments = {"", "($a)", "($a, $b)", "($a, $b, $c)"};
    const std::string_view args = arguments[static_cast<size_t>(expr::info(fn).arity)];
    if (!form.ends_with(args)) continue;
    const std::string_view head = form.substr(0, form.size() - args.size());
    if (n.op == "Mod"        ? head == (n.get_int("fmod", 0) ? "Mod[fmod=1]" : "Mod")
        : n.op == "BitShift" ? head == "BitShift[direction=" + n.get_string("direction", "") + "]"
                             : head == n.op)
      return fn;
  }
  return std::nullopt;
}

/// Operators whose parameters are attributes: the function, and its further arguments as (attribute, default).
struct Parametrised {
  std::string_view op;
  Fn fn;
  int inputs;
  struct {
    const char* name;
    float otherwise;
  } parameters[2];
};
constexpr Parametrised parametrised[] = {
    {"LeakyRelu", Fn::leaky_relu, 1, {{"alpha", 0.01f}}},
    {"PRelu", Fn::leaky_relu, 2, {}},
    {"Elu", Fn::elu, 1, {{"alpha", 1.0f}}},
    {"Celu", Fn::celu, 1, {{"alpha", 1.0f}}},
    {"Selu", Fn::selu, 1, {{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}},
    {"HardSigmoid", Fn::hard_sigmoid, 1, {{"alpha", 0.2f}, {"beta", 0.5f}}},
    {"ThresholdedRelu", Fn::thresholded_relu, 1, {{"alpha", 1.0f}}},
    {"Swish", Fn::swish, 1, {{"alpha", 1.0f}}},
};

/// Operators without an ONNX form of their own in functions.def.
std::optional<Fn> other_function(const Node& n) {
  if (n.op == "Gelu") return n.get_string("approximate", "none") == "tanh" ? Fn::gelu_tanh : Fn::gelu;
  if (n.op == "Mish") return Fn::mish;
  return std::nullopt;
}

bool is_variadic(const Node& n) { return n.op == "Mean" || n.op == "Sum" || n.op == "Max" || n.op == "Min"; }
/// Inference, or nothing to drop: the input itself, and a mask of ones.
bool keeps_all(const BoundNode& b) {
  const auto is = [&](size_t i, double v) {
    const Tensor* t = i < b.inputs.size() && b.inputs[i].constant.valid() ? &b.inputs[i].constant : nullptr;
    return t && t->size() == 1 && t->to_doubles()[0] == v;
  };
  const bool given = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
  return !given || is(2, 0) || is(1, 0);
}

DType computing(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

Ref call(Program& p, Fn fn, const std::vector<Ref>& a) {
  return a.size() == 1 ? p.call(fn, a[0]) : a.size() == 2 ? p.call(fn, a[0], a[1]) : p.call(fn, a[0], a[1], a[2]);
}

/// An operand in the computing type; a scalar constant (an exponent, a bound) is written into the program.
Ref widened(Program& p, const BoundTensor& t, Ref r, DType type) {
  const bool known = t.constant.valid() && t.constant.size() == 1 && (type == DType::f32 || type == DType::f64);
  return known ? p.constant(type, t.constant.to_doubles()[0]) : p.cast(r, type);
}

DType unsigned_of(DType t) {
  return bits(t) == 8 ? DType::u8 : bits(t) == 16 ? DType::u16 : bits(t) == 32 ? DType::u32 : DType::u64;
}

/// The language shifts numbers without a sign. To the right, a negative number's complement is shifted; a negative count is
/// beyond the width of its unsigned form, as it should be.
Ref signed_shift(Program& p, Ref a, Ref by, DType type, bool left) {
  const DType raw = unsigned_of(type);
  by = p.cast(by, raw);
  if (left) return p.cast(p.call(Fn::shift_left, p.cast(a, raw), by), type);
  const Ref zero = p.constant(type, 0), mask = p.call(Fn::select, p.call(Fn::less, a, zero), p.constant(type, -1), zero);
  const Ref shifted = p.call(Fn::shift_right, p.cast(p.call(Fn::bit_xor, a, mask), raw), by);
  return p.call(Fn::bit_xor, p.cast(shifted, type), mask);
}

/// The remainder with the sign of the divisor.
Ref floor_mod(Program& p, Ref a, Ref b, DType type) {
  const Ref zero = p.constant(type, 0), r = p.call(Fn::fmod, a, b);
  const Ref other_sign = p.call(Fn::logical_xor, p.call(Fn::less, r, zero), p.call(Fn::less, b, zero));
  const Ref whole = p.call(Fn::equal, r, zero);
  return p.call(Fn::select, p.call(Fn::logical_or, whole, p.call(Fn::logical_not, other_sign)), r, p.call(Fn::add, r, b));
}

}  // namespace

bool is_pointwise(const Node& n) {
  if (n.domain == smelt_domain) return n.op == "Pointwise";
  if (!n.domain.empty()) return false;
  return n.op == "Cast" || n.op == "CastLike" || n.op == "Clip" || n.op == "IsInf" || n.op == "Shrink" || n.op == "Dropout" ||
         is_variadic(n) || same_function(n, false) || same_function(n, true) || other_function(n) ||
         std::ranges::find(parametrised, std::string_view(n.op), &Parametrised::op) != std::end(parametrised);
}

std::span<const BoundTensor> pointwise_inputs(const BoundNode& b) {
  return std::span(b.inputs).first(b.node->is("CastLike") || b.node->is("Dropout") ? 1 : b.inputs.size());
}

std::optional<Program> program_of(const BoundNode& b) {
  const Node& n = *b.node;
  if (n.program) return *n.program;
  Program p;
  std::vector<Ref> in;  // -1 where left out
  const std::span<const BoundTensor> inputs = pointwise_inputs(b);
  for (const BoundTensor& t : inputs) {
    if (t.type == DType::undefined) continue;
    if (!expr::is_computing(computing(t.type))) return std::nullopt;
    p.input(t.type);
  }
  Ref next = 0;
  for (const BoundTensor& t : inputs) in.push_back(t.type == DType::undefined ? -1 : next++);
  const DType to = b.outputs[0].type;
  if (in.empty() || !expr::is_computing(computing(to))) return std::nullopt;
  auto finish = [&](Ref r) -> std::optional<Program> {
    p.output(p.cast(r, to));
    return p;
  };
  if (n.op == "Cast" || n.op == "CastLike") return finish(in[0]);
  // A select's condition stays a bool; all other operands are widened, Pow's exponent to its base's type.
  const DType type = computing(b.inputs[n.op == "Where" ? 1 : 0].type);
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i] >= 0 && !(n.op == "Where" && i == 0)) in[i] = widened(p, b.inputs[i], in[i], type);

  std::optional<Fn> fn;
  if (n.op == "BitShift" && is_signed(type))
    return finish(signed_shift(p, in[0], in[1], type, n.get_string("direction", "") == "LEFT"));
  if (n.op == "Dropout") {
    if (!keeps_all(b)) return std::nullopt;
    p.output(p.cast(in[0], to));
    if (b.outputs.size() > 1) p.output(p.cast(p.constant(DType::i32, 1), b.outputs[1].type));
    return p;
  }
  if (n.op == "IsInf") {
    if (!expr::accepts(Fn::is_inf, type)) return std::nullopt;
    const Ref zero = p.constant(type, 0);
    Ref r = p.call(Fn::is_inf, in[0]);
    if (!n.get_int("detect_negative", 1)) r = p.call(Fn::logical_and, r, p.call(Fn::greater, in[0], zero));
    if (!n.get_int("detect_positive", 1)) r = p.call(Fn::logical_and, r, p.call(Fn::less, in[0], zero));
    return finish(r);
  }
  if (n.op == "Mod" && !n.get_int("fmod", 0) && is_float(type)) return finish(floor_mod(p, in[0], in[1], type));
  if (n.op == "Shrink") {
    if (!is_float(type)) return std::nullopt;
    const double bias = n.get_float("bias", 0), lambda = n.get_float("lambd", 0.5f);
    const Ref zero = p.constant(type, 0), by = p.constant(type, bias);
    const Ref above = p.call(Fn::select, p.call(Fn::greater, in[0], p.constant(type, lambda)), p.call(Fn::sub, in[0], by), zero);
    const Ref r = p.call(Fn::select, p.call(Fn::less, in[0], p.constant(type, -lambda)), p.call(Fn::add, in[0], by), above);
    return finish(p.call(Fn::select, p.call(Fn::is_nan, in[0]), in[0], r));
  }
  if (n.op == "Clip") {
    if (!expr::accepts(Fn::clip, type)) return std::nullopt;
    Ref r = in[0];
    if (in.size() > 1 && in[1] >= 0) r = p.call(Fn::max, r, in[1]);
    if (in.size() > 2 && in[2] >= 0) r = p.call(Fn::min, r, in[2]);
    return finish(r);
  }
  if (is_variadic(n)) {
    if (n.op == "Mean" && !is_float(type)) return std::nullopt;
    fn = n.op == "Sum" || n.op == "Mean" ? Fn::add : n.op == "Max" ? Fn::max : Fn::min;
    if (!expr::accepts(*fn, type)) return std::nullopt;
    Ref r = in[0];
    for (size_t i = 1; i < in.size(); ++i) r = p.call(*fn, r, in[i]);
    if (n.op == "Mean") r = p.call(Fn::div, r, p.constant(type, static_cast<double>(in.size())));
    return finish(r);
  }
  const auto* with = std::ranges::find(parametrised, std::string_view(n.op), &Parametrised::op);
  if (with != std::end(parametrised)) {
    fn = with->fn;
    if (!expr::accepts(*fn, type)) return std::nullopt;
    for (size_t i = in.size(); static_cast<int>(i) < expr::info(*fn).arity; ++i) {
      const auto& parameter = with->parameters[i - static_cast<size_t>(with->inputs)];
      in.push_back(p.constant(type, n.get_float(parameter.name, parameter.otherwise)));
    }
  } else {
    fn = other_function(n);
    if (!fn) fn = same_function(n, is_integer(type));
  }
  if (!fn || !expr::accepts(*fn, type) || static_cast<int>(in.size()) != expr::info(*fn).arity) return std::nullopt;
  if (std::ranges::count(in, -1) > 0) return std::nullopt;
  return finish(call(p, *fn, in));
}

}  // namespace smelt::ops
