#include "expr/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "expr/bytes.h"

namespace smelt::expr {
namespace {

std::string literal(DType t, double v) {
  if (t == DType::boolean) return v != 0 ? "true" : "false";
  if (is_integer(t)) return fmt::format("({})({:.0f})", cuda_type(t), v);
  const char* suffix = t == DType::f32 ? "f" : "";
  if (std::isnan(v)) return t == DType::f32 ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(v)) {
    const std::string_view bits = t == DType::f32 ? "__int_as_float(0x7f800000)" : "__longlong_as_double(0x7ff0000000000000ll)";
    return fmt::format("{}{}", v < 0 ? "-" : "", bits);
  }
  // Hexadecimal digits keep every bit. A float constant is rounded here, once.
  return t == DType::f32 ? fmt::format("{:a}{}", static_cast<double>(static_cast<float>(v)), suffix) : fmt::format("{:a}", v);
}

std::string converted(const std::string& v, DType from, DType to) {
  const bool half_from = from == DType::f16 || from == DType::bf16, half_to = to == DType::f16 || to == DType::bf16;
  if (half_from) {
    const std::string wide = fmt::format("f32({})", v);
    return to == DType::f32 ? wide : converted(wide, DType::f32, to);
  }
  if (half_to) {
    const std::string wide = is_float(from) ? v : fmt::format("float({})", v);
    return fmt::format("{}({})", to == DType::f16 ? "f16_of" : "bf16_of", wide);
  }
  if (to == DType::boolean) return fmt::format("{} != ({})0", v, cuda_type(from));
  if (is_float(from) && is_integer(to)) {
    // The range is [smallest, top). top is a power of two, which every float type holds exactly.
    const int width = bits(to) - (is_signed(to) ? 1 : 0);
    const std::string type(cuda_type(to));
    const std::string ones = fmt::format("({})(~0ull >> {})", type, 64 - width);
    return fmt::format("smelt_expr::saturated<{}, {}>({}, {}, {}, {})", type, cuda_type(from), v,
                       literal(from, std::ldexp(1.0, width)),
                       is_signed(to) ? fmt::format("({})(~{})", type, ones) : fmt::format("({})0", type), ones);
  }
  return fmt::format("({})({})", cuda_type(to), v);
}

/// Code over a, b, c as functions.def has it, by functions of common/expr.cuh: on a GPU an exponential and a reciprocal are one
/// instruction each, an exact division and erff twenty. A product's gelu was two thirds of its end.
std::string_view cuda_code(Fn fn) {
  static const std::map<Fn, std::string_view> own{
      {Fn::sigmoid, "over_one_and_exp(T(1), -a)"},
      {Fn::silu, "over_one_and_exp(a, -a)"},
      {Fn::swish, "over_one_and_exp(a, -b * a)"},
      {Fn::swiglu, "over_one_and_exp(a, -c * a) * b"},
      {Fn::gelu, "gelu_by_tail(a)"},
      {Fn::gelu_tanh, "gelu_by_sigmoid(a)"},
  };
  const auto found = own.find(fn);
  return found == own.end() ? info(fn).code : found->second;
}

/// What each value's magnitude is at most; infinity where that is not known, or it may be NaN.
std::vector<double> magnitudes(const Program& p, std::span<const double> inputs) {
  constexpr double unknown = std::numeric_limits<double>::infinity();
  std::vector<double> most;
  for (const Instruction& c : p.code()) {
    const size_t at = most.size();
    const auto of = [&](int k) { return most[static_cast<size_t>(c.args[k])]; };
    const double whole = is_integer(c.type) ? std::ldexp(1.0, bits(c.type)) : unknown;
    double here = unknown;
    if (c.fn == Fn::input)
      here = at < inputs.size() ? inputs[at] : unknown;
    else if (c.fn == Fn::constant)
      here = std::abs(c.value);
    else if (c.fn == Fn::cast || c.fn == Fn::relu)
      here = of(0);
    else if (c.fn == Fn::round)
      here = of(0) + 1;
    else if (c.fn == Fn::add || c.fn == Fn::sub)
      here = of(0) + of(1);
    else if (c.fn == Fn::mul)
      here = of(0) * of(1);
    else if (c.fn == Fn::div && p.code()[static_cast<size_t>(c.args[1])].fn == Fn::constant)
      here = of(0) / of(1) * (1 + 0x1p-23);  // the constant is rounded to f32
    else if (c.fn == Fn::clip)
      here = of(0) + of(1) + of(2);
    else if (c.fn == Fn::min || c.fn == Fn::max)
      here = std::max(of(0), of(1));
    else if (c.fn == Fn::neg || c.fn == Fn::abs)
      here = of(0);
    else if (c.fn == Fn::silu || c.fn == Fn::gelu || c.fn == Fn::gelu_tanh || c.fn == Fn::mish || c.fn == Fn::hard_swish)
      here = 2 * of(0);  // with room for what they round
    else if (c.fn == Fn::sigmoid || c.fn == Fn::tanh || c.fn == Fn::erf || c.fn == Fn::softsign)
      here = std::isfinite(of(0)) ? 2 : unknown;
    else if (c.fn == Fn::hard_sigmoid)
      here = std::isfinite(of(0) * of(1) + of(2)) ? 1 : unknown;
    else if (c.fn == Fn::leaky_relu)
      here = of(0) * std::max(1.0, of(1));
    // Sums of integers wrap, and cannot be larger then either.
    if (is_integer(c.type)) here = c.fn == Fn::mul || c.fn == Fn::div ? whole : std::min(here, whole);
    // Of 0 and infinity it is NaN. What may have become infinite in f32 may then become NaN.
    most.push_back(here < std::numeric_limits<float>::max() ? here : unknown);
  }
  return most;
}

/// Whether all that reads a value is an instruction of which `takes(instruction, its place)` says so, and it is no result.
template <class F> bool read_only_by(const Program& p, Ref value, F&& takes) {
  if (std::ranges::find(p.outputs(), value) != p.outputs().end()) return false;
  for (size_t i = 0; i < p.code().size(); ++i) {
    const Instruction& c = p.code()[i];
    for (int k = 0; c.fn > Fn::constant && k < (c.fn == Fn::cast ? 1 : info(c.fn).arity); ++k)
      if (c.args[k] == value && !takes(c, static_cast<Ref>(i))) return false;
  }
  return true;
}

/// Whether nothing but round() reads a value, through relu or not.
bool only_rounded(const Program& p, Ref value) {
  return read_only_by(
      p, value, [&](const Instruction& c, Ref at) { return c.fn == Fn::round || (c.fn == Fn::relu && only_rounded(p, at)); });
}

/// Whether nothing but saturating to 8 bits reads a value, rounded, perhaps after relu, and moved by a whole zero point.
bool only_saturated(const Program& p, Ref value) {
  const auto by_casts = [&](Ref clip) {
    return read_only_by(p, clip, [&](const Instruction& c, Ref) { return quantized(p, c).has_value(); });
  };
  const auto by_clips = [&](Ref sum) {
    return read_only_by(p, sum,
                        [&](const Instruction& c, Ref at) { return c.fn == Fn::clip && c.args[0] == sum && by_casts(at); });
  };
  const auto by_sums = [&](Ref rounded) {
    return read_only_by(p, rounded,
                        [&](const Instruction& c, Ref at) { return c.fn == Fn::add && c.args[0] == rounded && by_clips(at); });
  };
  return read_only_by(p, value, [&](const Instruction& c, Ref at) {
    return c.fn == Fn::round ? by_sums(at) : c.fn == Fn::relu && only_saturated(p, at);
  });
}

/// A constant by which a quotient may be divided by over() (kernels/common/exact_division.h), for all dividends but those so small that
/// they are rounded to 0; where `most` is not 0, once they are at most so large.
struct FastDivisor {
  float by, most;
};
std::optional<FastDivisor> fast_divisor(const Program& p, size_t at, std::span<const double> magnitude) {
  constexpr double far = 0x1p60;  // from where no step of over() overflows or loses bits
  const Instruction& c = p.code()[at];
  if (c.fn != Fn::div || c.type != DType::f32) return {};
  const Instruction& by = p.code()[static_cast<size_t>(c.args[1])];
  const double size = std::abs(by.value);
  if (by.fn != Fn::constant || !(size >= 1 / far && size <= far)) return {};
  const auto divisor = static_cast<float>(by.value);
  if (std::isfinite(magnitude[static_cast<size_t>(c.args[0])]) && std::isfinite(magnitude[at]) &&
      only_rounded(p, static_cast<Ref>(at)))
    return FastDivisor{divisor, 0};
  // Quotients beyond 1024 are saturated, whatever the zero point is.
  if (only_saturated(p, static_cast<Ref>(at))) return FastDivisor{divisor, 1024 * std::abs(divisor)};
  return {};
}

}  // namespace

std::string_view cuda_type(DType t) {
  switch (t) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i8: return "signed char";
    case DType::i16: return "short";
    case DType::i32: return "int";
    case DType::i64: return "long long";
    case DType::u8: return "unsigned char";
    case DType::u16: return "unsigned short";
    case DType::u32: return "unsigned int";
    case DType::u64: return "unsigned long long";
    case DType::boolean: return "bool";
    default: fail("expression: the CUDA printer has no type for {}", name(t));
  }
}

std::string to_cuda(const Program& p, std::string_view name, std::span<const double> most) {
  std::string s = fmt::format("struct {} {{\n", name);
  auto out = std::back_inserter(s);
  // The functions that the program calls, each once.
  std::set<Fn> used;
  for (const Instruction& c : p.code())
    if (c.fn > Fn::cast && used.insert(c.fn).second)
      fmt::format_to(out,
                     "  template <class A, class T> static __device__ __forceinline__ auto {}(A a, T b, T c) {{ using namespace "
                     "smelt_expr; return {}; }}\n",
                     fmt::format("fn_{}", info(c.fn).name), cuda_code(c.fn));
  const std::vector<double> magnitude = magnitudes(p, most);
  // A value of 8 bits that is only written may be saturated where it is stored.
  const auto unsaturated = [&](Ref r) {
    const auto q = quantized(p, p.code()[static_cast<size_t>(r)]);
    constexpr double near = 1 << 21;
    return q && p.outputs().size() == 1 && p.outputs()[0] == r &&
           (of_bytes(p, r) || magnitude[static_cast<size_t>(q->x)] + 256 < near);
  };
  // What is rounded to 8 bits, and whether it is a number, whatever the program reads.
  struct Rounded {
    std::string x;
    bool relu, number;
  };
  const auto rounded = [&](Ref cast, const Quantized& q) {
    const auto way = of_bytes(p, cast);
    if (!way) return Rounded{fmt::format("v{}", q.x), q.relu, std::isfinite(magnitude[static_cast<size_t>(q.x)])};
    const char* const name = way->form == OfBytes::Form::sum       ? "sum"
                             : way->form == OfBytes::Form::product ? "product"
                             : way->form == OfBytes::Form::scaled  ? "scaled"
                                                                   : "hard_swish";
    return Rounded{
        fmt::format("smelt_expr::{}_of_bytes(v{}, {}, {}, {})", name, way->a, way->b < 0 ? "0.f" : fmt::format("v{}", way->b),
                    literal(DType::f32, way->by_a), literal(DType::f32, way->by_b)),
        way->relu, true};
  };
  const bool later = p.outputs().size() == 1 && unsaturated(p.outputs()[0]);
  if (later) s += "  static constexpr bool unsaturated = true;\n";
  // Bytes that are made floats may come as they lie among others (ByteOf).
  const auto by_words = [&](int i) {
    return std::ranges::any_of(p.code(), [&](const Instruction& c) {
      const auto found = less_whole(p, c);
      return found && found->byte == i;
    });
  };
  s += "  static __device__ __forceinline__ void apply(";
  for (int i = 0; i < p.input_count(); ++i)
    fmt::format_to(out, "{}{} {}{}", i ? ", " : "", by_words(i) ? "auto" : cuda_type(p.type(i)), by_words(i) ? "b" : "v", i);
  for (size_t o = 0; o < p.outputs().size(); ++o)
    fmt::format_to(out, "{}{}& out{}", o || p.input_count() ? ", " : "", later ? "auto" : cuda_type(p.type(p.outputs()[o])), o);
  s += ") {\n";
  for (int i = 0; i < p.input_count(); ++i)
    if (by_words(i)) fmt::format_to(out, "    [[maybe_unused]] const {} v{} = b{};\n", cuda_type(p.type(i)), i, i);
  for (size_t i = static_cast<size_t>(p.input_count()); i < p.code().size(); ++i) {
    const Instruction& c = p.code()[i];
    auto arg = [&](int k) { return fmt::format("v{}", c.args[k]); };
    std::string value;
    if (c.fn == Fn::constant) {
      value = literal(c.type, c.value);
    } else if (unsaturated(static_cast<Ref>(i))) {
      const Quantized q = *quantized(p, c);
      const Rounded r = rounded(static_cast<Ref>(i), q);
      fmt::format_to(out, "    const auto v{} = smelt_expr::quantized_near<{}, {}>({}, {});\n", i, cuda_type(c.type), r.relu, r.x,
                     literal(DType::f32, q.zero));
      continue;
    } else if (const auto q = quantized(p, c)) {
      const Rounded r = rounded(static_cast<Ref>(i), *q);
      value = fmt::format("smelt_expr::quantized<{}, {}, {}>({}, {})", cuda_type(c.type), r.number, r.relu, r.x,
                          literal(DType::f32, q->zero));
    } else if (const auto less = less_whole(p, c)) {
      const std::string whole = literal(DType::f32, less->less);
      if (const auto from = quantized(p, p.code()[static_cast<size_t>(less->byte)]))
        value = fmt::format("smelt_expr::requantized<{}, {}, {}>(v{}, {}, {})", cuda_type(p.type(less->byte)),
                            std::isfinite(magnitude[static_cast<size_t>(from->x)]), from->relu, from->x,
                            literal(DType::f32, from->zero), whole);
      else
        value = fmt::format("smelt_expr::float_of_byte({}{}, {})", less->byte < p.input_count() ? "b" : "v", less->byte, whole);
    } else if (c.fn == Fn::cast) {
      value = converted(arg(0), p.type(c.args[0]), c.type);
    } else if (const auto by = fast_divisor(p, i, magnitude)) {
      const std::string most = literal(DType::f32, by->most), x = arg(0);
      value = fmt::format("smelt::kernels::over({}, {}, {})",
                          by->most == 0 ? x : fmt::format("smelt_expr::nan_min(smelt_expr::nan_max({}, -{}), {})", x, most, most),
                          literal(DType::f32, by->by), literal(DType::f32, 1 / by->by));
    } else {
      const int arity = info(c.fn).arity;
      value = fmt::format("({})fn_{}({}, {}, {})", cuda_type(c.type), info(c.fn).name, arg(0), arg(arity > 1 ? 1 : 0),
                          arg(arity > 2   ? 2
                              : arity > 1 ? 1
                                          : 0));
    }
    fmt::format_to(out, "    const {} v{} = {};\n", cuda_type(c.type), i, value);
  }
  for (size_t o = 0; o < p.outputs().size(); ++o) fmt::format_to(out, "    out{} = v{};\n", o, p.outputs()[o]);
  return s + "  }\n};\n";
}

}  // namespace smelt::expr
