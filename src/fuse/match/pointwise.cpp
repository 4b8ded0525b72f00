#include "fuse/match/pointwise.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "fuse/match/compose.h"
#include "graph/fused.h"

namespace smelt::fuse {
namespace {

using expr::Fn;
using expr::Program;
using expr::Ref;

/// One node being appended.
struct Writer {
  Program& p;
  const Graph& g;
  const Node& node;
  std::span<const Ref> args;

  /// Arguments in braces are appended in the order in which they are written, whatever the compiler.
  Ref call(Fn fn, std::initializer_list<Ref> a) const {
    const Ref* r = a.begin();
    return a.size() == 1 ? p.call(fn, r[0]) : a.size() == 2 ? p.call(fn, r[0], r[1]) : p.call(fn, r[0], r[1], r[2]);
  }
  /// A number in another type; a constant stays a constant.
  Ref convert(Ref r, DType to) const {
    const expr::Instruction in = p.code()[static_cast<size_t>(r)];
    return in.fn == Fn::constant && in.type != to ? p.constant(to, in.value) : p.cast(r, to);
  }
  bool has(size_t i) const { return i < args.size() && args[i] >= 0; }
  DType type(size_t i = 0) const { return p.type(args[i]); }
  Ref number(double v) const { return p.constant(type(), v); }
  Ref attribute(const char* name, float otherwise) const { return number(node.get_float(name, otherwise)); }
  /// The value of an argument that is a constant.
  std::optional<double> constant(size_t i) const {
    const expr::Instruction& in = p.code()[static_cast<size_t>(args[i])];
    return in.fn == Fn::constant ? std::optional(in.value) : std::nullopt;
  }
  DType result_type() const { return g.value(node.outputs[0]).type; }
};

Ref identity(const Writer& w) { return w.args[0]; }
Ref cast(const Writer& w) { return w.p.cast(w.args[0], *computing_type(w.result_type())); }

template <Fn fn> Ref fold(const Writer& w) {
  Ref r = w.args[0];
  for (size_t i = 1; i < w.args.size(); ++i) r = w.call(fn, {r, w.args[i]});
  return r;
}

Ref mean(const Writer& w) { return w.call(Fn::div, {fold<Fn::add>(w), w.number(static_cast<double>(w.args.size()))}); }

Ref modulo(const Writer& w) { return w.call(w.node.get_int("fmod", 0) ? Fn::fmod : Fn::mod, {w.args[0], w.args[1]}); }

Ref power(const Writer& w) {
  const Ref x = w.args[0];
  const auto exponent = w.constant(1);
  if (exponent == 1) return x;
  if (exponent == 2) return w.call(Fn::mul, {x, x});
  if (exponent == 3) return w.call(Fn::mul, {w.call(Fn::mul, {x, x}), x});
  if (exponent == -1 && is_float(w.type())) return w.call(Fn::reciprocal, {x});
  return w.call(Fn::pow, {x, w.convert(w.args[1], w.type())});
}

Ref clip(const Writer& w) {
  const bool low = w.has(1) || w.node.has("min"), high = w.has(2) || w.node.has("max");
  const Ref a = !low ? -1 : w.has(1) ? w.args[1] : w.attribute("min", 0);
  const Ref b = !high ? -1 : w.has(2) ? w.args[2] : w.attribute("max", 0);
  if (low && high) return w.call(Fn::clip, {w.args[0], a, b});
  if (low) return w.call(Fn::max, {w.args[0], a});
  return high ? w.call(Fn::min, {w.args[0], b}) : w.args[0];
}

Ref leaky_relu(const Writer& w) { return w.call(Fn::leaky_relu, {w.args[0], w.attribute("alpha", 0.01f)}); }
Ref elu(const Writer& w) { return w.call(Fn::elu, {w.args[0], w.attribute("alpha", 1)}); }
Ref celu(const Writer& w) { return w.call(Fn::celu, {w.args[0], w.attribute("alpha", 1)}); }
Ref thresholded_relu(const Writer& w) { return w.call(Fn::thresholded_relu, {w.args[0], w.attribute("alpha", 1)}); }
Ref selu(const Writer& w) {
  return w.call(Fn::selu,
                {w.args[0], w.attribute("alpha", 1.67326319217681884765625f), w.attribute("gamma", 1.05070102214813232421875f)});
}
Ref hard_sigmoid(const Writer& w) {
  return w.call(Fn::hard_sigmoid, {w.args[0], w.attribute("alpha", 0.2f), w.attribute("beta", 0.5f)});
}
Ref swish(const Writer& w) {
  const float alpha = w.node.get_float("alpha", w.node.domain == microsoft_domain ? 1.702f : 1.0f);
  return alpha == 1 ? w.call(Fn::silu, {w.args[0]}) : w.call(Fn::swish, {w.args[0], w.number(alpha)});
}
Ref gelu(const Writer& w) {
  return w.call(w.node.get_string("approximate", "none") == "tanh" ? Fn::gelu_tanh : Fn::gelu, {w.args[0]});
}
Ref bias_gelu(const Writer& w) { return w.call(Fn::gelu, {w.call(Fn::add, {w.args[0], w.args[1]})}); }
Ref fast_gelu(const Writer& w) { return w.call(Fn::gelu_tanh, {w.has(1) ? w.call(Fn::add, {w.args[0], w.args[1]}) : w.args[0]}); }

/// x < -lambd: x + bias; x > lambd: x - bias; 0 between.
Ref shrink(const Writer& w) {
  const float lambd = w.node.get_float("lambd", 0.5f);
  const Ref x = w.args[0], bias = w.attribute("bias", 0);
  const Ref above = w.call(Fn::select, {w.call(Fn::greater, {x, w.number(lambd)}), w.call(Fn::sub, {x, bias}), w.number(0)});
  return w.call(Fn::select, {w.call(Fn::less, {x, w.number(-lambd)}), w.call(Fn::add, {x, bias}), above});
}

Ref is_inf(const Writer& w) {
  const bool negative = w.node.get_int("detect_negative", 1), positive = w.node.get_int("detect_positive", 1);
  const double largest = w.type() == DType::f64 ? DBL_MAX : FLT_MAX;
  if (negative && positive) return w.call(Fn::is_inf, {w.args[0]});
  if (positive) return w.call(Fn::greater, {w.args[0], w.number(largest)});
  if (negative) return w.call(Fn::less, {w.args[0], w.number(-largest)});
  return w.p.constant(DType::boolean, 0);
}

Ref bit_shift(const Writer& w) {
  return w.call(w.node.get_string("direction", "") == "LEFT" ? Fn::shift_left : Fn::shift_right, {w.args[0], w.args[1]});
}

/// saturate(round(x / scale) + zero point)
Ref quantize(const Writer& w) {
  const DType to = w.result_type();
  const int width = bits(to);
  const double low = is_signed(to) ? -std::ldexp(1, width - 1) : 0, high = std::ldexp(1, is_signed(to) ? width - 1 : width) - 1;
  Ref r = w.call(Fn::round, {w.call(Fn::div, {w.args[0], w.convert(w.args[1], w.type())})});
  if (w.has(2)) r = w.call(Fn::add, {r, w.convert(w.args[2], w.type())});
  return w.p.cast(w.call(Fn::clip, {r, w.number(low), w.number(high)}), to);
}

/// (x - zero point) * scale
Ref dequantize(const Writer& w) {
  const DType to = *computing_type(w.result_type());
  Ref x = w.args[0];
  if (w.has(2)) x = w.call(Fn::sub, {w.p.cast(x, DType::i32), w.convert(w.args[2], DType::i32)});
  return w.call(Fn::mul, {w.p.cast(x, to), w.convert(w.args[1], to)});
}

/// A row names the operator and the function whose argument types it shares; without `write` it is that function.
struct Row {
  std::string_view op;
  Fn fn;
  Ref (*write)(const Writer&) = nullptr;
  std::string_view domain = onnx_domain;
};

constexpr Row rows[] = {
    {"Identity", Fn::select, identity},
    {"Cast", Fn::select, cast},
    {"Where", Fn::select},
    {"Equal", Fn::equal},
    {"Less", Fn::less},
    {"LessOrEqual", Fn::less_equal},
    {"Greater", Fn::greater},
    {"GreaterOrEqual", Fn::greater_equal},
    {"And", Fn::logical_and},
    {"Or", Fn::logical_or},
    {"Xor", Fn::logical_xor},
    {"Not", Fn::logical_not},
    {"IsNaN", Fn::is_nan},
    {"IsInf", Fn::is_inf, is_inf},
    {"BitwiseAnd", Fn::bit_and},
    {"BitwiseOr", Fn::bit_or},
    {"BitwiseXor", Fn::bit_xor},
    {"BitwiseNot", Fn::bit_not},
    {"BitShift", Fn::shift_left, bit_shift},
    {"Add", Fn::add},
    {"Sub", Fn::sub},
    {"Mul", Fn::mul},
    {"Div", Fn::div},
    {"Mod", Fn::mod, modulo},
    {"Pow", Fn::pow, power},
    {"Sum", Fn::add, fold<Fn::add>},
    {"Mean", Fn::add, mean},
    {"Min", Fn::min, fold<Fn::min>},
    {"Max", Fn::max, fold<Fn::max>},
    {"Neg", Fn::neg},
    {"Abs", Fn::abs},
    {"Sign", Fn::sign},
    {"Floor", Fn::floor},
    {"Ceil", Fn::ceil},
    {"Round", Fn::round},
    {"Sqrt", Fn::sqrt},
    {"Reciprocal", Fn::reciprocal},
    {"Exp", Fn::exp},
    {"Log", Fn::log},
    {"Sin", Fn::sin},
    {"Cos", Fn::cos},
    {"Tan", Fn::tan},
    {"Asin", Fn::asin},
    {"Acos", Fn::acos},
    {"Atan", Fn::atan},
    {"Sinh", Fn::sinh},
    {"Cosh", Fn::cosh},
    {"Asinh", Fn::asinh},
    {"Acosh", Fn::acosh},
    {"Atanh", Fn::atanh},
    {"Erf", Fn::erf},
    {"Tanh", Fn::tanh},
    {"Sigmoid", Fn::sigmoid},
    {"Relu", Fn::relu},
    {"Clip", Fn::clip, clip},
    {"LeakyRelu", Fn::leaky_relu, leaky_relu},
    {"PRelu", Fn::leaky_relu},
    {"ThresholdedRelu", Fn::thresholded_relu, thresholded_relu},
    {"Elu", Fn::elu, elu},
    {"Celu", Fn::celu, celu},
    {"Selu", Fn::selu, selu},
    {"Softplus", Fn::softplus},
    {"Softsign", Fn::softsign},
    {"Shrink", Fn::select, shrink},
    {"HardSigmoid", Fn::hard_sigmoid, hard_sigmoid},
    {"HardSwish", Fn::hard_swish},
    {"Mish", Fn::mish},
    {"Swish", Fn::swish, swish},
    {"Gelu", Fn::gelu, gelu},
    {"QuantizeLinear", Fn::select, quantize},
    {"DequantizeLinear", Fn::select, dequantize},
    {"Gelu", Fn::gelu, gelu, microsoft_domain},
    {"QuickGelu", Fn::swish, swish, microsoft_domain},
    {"FastGelu", Fn::gelu_tanh, fast_gelu, microsoft_domain},
    {"BiasGelu", Fn::gelu, bias_gelu, microsoft_domain},
};

const Row* find(const Node& n) {
  for (const Row& r : rows)
    if (n.is(r.op, r.domain)) return &r;
  return nullptr;
}

template <class... A> Rejected no(Reason reason, NodeId n, fmt::format_string<A...> f, A&&... a) {
  return {reason, n, fmt::format(f, std::forward<A>(a)...)};
}

std::optional<Rejected> bad_quantization(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool quantizes = node.op == "QuantizeLinear";
  const DType narrow = g.value(quantizes ? node.out() : node.in(0)).type;
  const bool byte_sized = is_integer(narrow) && bits(narrow) >= 8 && bits(narrow) <= 16;
  if (!byte_sized && (quantizes || narrow != DType::i32))
    return no(Reason::wrong_type, n, "{} is {}", describe(g, n), name(narrow));
  for (size_t i : {1, 2}) {
    const ValueId v = node.in(i);
    if (v == ValueId::none) continue;
    const auto& shape = g.value(v).shape;
    if (!shape || !is_static(*shape)) return no(Reason::unknown_shape, n, "the shape of {} is not known", g.value(v).name);
    if (elements(to_shape(*shape)) != 1)
      return no(Reason::wrong_shape, n, "{} has {} elements, one for each channel", g.value(v).name, elements(to_shape(*shape)));
  }
  return {};
}

/// Types of inputs that need not agree with the first.
bool may_differ(const Node& n, size_t i) {
  return (n.op == "Where" && i == 0) || n.op == "Pow" || n.op == "QuantizeLinear" || n.op == "DequantizeLinear";
}

/// The instructions of a program inside another: its casts to f16 and bf16 fall away.
std::vector<Ref> append_program(Program& p, const Program& inner, std::span<const Ref> args) {
  std::vector<Ref> refs;
  for (const expr::Instruction& in : inner.code()) {
    const auto arg = [&](int i) { return refs[static_cast<size_t>(in.args[i])]; };
    switch (in.fn) {
      case Fn::input: refs.push_back(args[static_cast<size_t>(in.index)]); break;
      case Fn::constant: refs.push_back(p.constant(in.type, in.value)); break;
      case Fn::cast: refs.push_back(p.cast(arg(0), *computing_type(in.type))); break;
      default:
        switch (expr::info(in.fn).arity) {
          case 1: refs.push_back(p.call(in.fn, arg(0))); break;
          case 2: refs.push_back(p.call(in.fn, arg(0), arg(1))); break;
          default: refs.push_back(p.call(in.fn, arg(0), arg(1), arg(2)));
        }
    }
  }
  std::vector<Ref> outputs;
  for (Ref r : inner.outputs()) outputs.push_back(refs[static_cast<size_t>(r)]);
  return outputs;
}

}  // namespace

std::optional<double> immediate(const Value& v) {
  if (!v.is_constant() || v.constant.size() != 1 || !computing_type(v.type)) return {};
  const double value = v.constant.to_doubles()[0];
  if (is_integer(v.type) && std::fabs(value) > 0x1p53) return {};
  return value;
}

std::optional<DType> computing_type(DType t) {
  if (t == DType::f16 || t == DType::bf16) return DType::f32;
  return expr::is_computing(t) ? std::optional(t) : std::nullopt;
}

std::optional<Rejected> not_pointwise(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool region = node.is("Pointwise", smelt_domain);
  const Row* row = find(node);
  if (!row && !region) return no(Reason::unsupported, n, "{} is not pointwise", describe(g, n));
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values)
      if (v != ValueId::none && !computing_type(g.value(v).type))
        return no(Reason::wrong_type, n, "{} is {}, which no program computes in", g.value(v).name, name(g.value(v).type));
  if (region) return {};

  if (node.outputs.size() != 1) return no(Reason::wrong_attribute, n, "{} has {} outputs", describe(g, n), node.outputs.size());
  if (node.in(0) == ValueId::none) return no(Reason::missing_input, n, "{} has no input", describe(g, n));
  const size_t least = row->write ? 1 : static_cast<size_t>(expr::info(row->fn).arity);
  if (node.inputs.size() < least)
    return no(Reason::missing_input, n, "{} has {} inputs of {}", describe(g, n), node.inputs.size(), least);
  const size_t lead = node.op == "Where" ? 1 : 0;
  const DType type = *computing_type(g.value(node.inputs[lead]).type);
  if (!expr::accepts(row->fn, type)) return no(Reason::wrong_type, n, "{} of {}", describe(g, n), name(type));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == ValueId::none || may_differ(node, i)) continue;
    const DType other = *computing_type(g.value(node.inputs[i]).type);
    if (other != type) return no(Reason::wrong_type, n, "{} of {} and {}", describe(g, n), name(type), name(other));
  }
  if (node.op == "Pow" && is_integer(type) && is_float(g.value(node.inputs[1]).type))
    return no(Reason::wrong_type, n, "{} of an integer to a fractional power", describe(g, n));
  if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") return bad_quantization(g, n);
  return {};
}

std::vector<Ref> append_node(Program& p, const Graph& g, NodeId n, std::span<const Ref> args) {
  const Node& node = g.node(n);
  if (node.is("Pointwise", smelt_domain)) return append_program(p, *node.program, args);
  const Row& row = *find(node);
  if (row.write) return {row.write({p, g, node, args})};
  switch (expr::info(row.fn).arity) {
    case 1: return {p.call(row.fn, args[0])};
    case 2: return {p.call(row.fn, args[0], args[1])};
    default: return {p.call(row.fn, args[0], args[1], args[2])};
  }
}

Body pointwise_body(const Graph& g, std::span<const NodeId> nodes, std::span<const ValueId> results, ValueId in0) {
  if (in0 == ValueId::none) return compose(g, nullptr, nodes, results);
  const DType type = g.value(in0).type;
  const Base base{in0, expr::conversion(accumulator(type), type), {}};
  return compose(g, &base, nodes, results);
}

}  // namespace smelt::fuse
