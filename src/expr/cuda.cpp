#include "expr/cuda.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <set>

#include "base/error.h"

namespace smelt::expr {
namespace {

constexpr std::string_view prelude = R"(namespace smelt_expr {
template <class T> __device__ __forceinline__ T pick(bool c, T a, T b) { return c ? a : b; }
__device__ __forceinline__ unsigned int abs(unsigned int a) { return a; }
__device__ __forceinline__ unsigned long long abs(unsigned long long a) { return a; }
template <class T> __device__ __forceinline__ T nan_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ __forceinline__ T nan_max(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float quotient(float a, float b) { return a / b; }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
  return T(a / b);
}
__device__ __forceinline__ float trunc_mod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double trunc_mod(double a, double b) { return fmod(a, b); }
template <class T> __device__ __forceinline__ T trunc_mod(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
template <class T> __device__ __forceinline__ T floor_mod(T a, T b) {
  const T r = trunc_mod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }
template <class T> __device__ __forceinline__ T power(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
  T r = T(1);
  for (; b != T(0); b = T(b >> 1), a = T(a * a))
    if (b & T(1)) r = T(r * a);
  return r;
}
template <class T> __device__ __forceinline__ T shifted_left(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a << b); }
template <class T> __device__ __forceinline__ T shifted_right(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a >> b); }
template <class To, class From> __device__ __forceinline__ To saturated(From a, From top, To smallest, To largest) {
  if (a != a) return To(0);
  if (a >= top) return largest;
  return a <= From(smallest) ? smallest : To(a);
}
}
)";

std::string literal(DType t, double v) {
  if (t == DType::boolean) return v != 0 ? "true" : "false";
  if (is_integer(t)) return fmt::format("({})({:.0f})", cuda_type(t), v);
  const char* suffix = t == DType::f32 ? "f" : "";
  if (std::isnan(v)) return t == DType::f32 ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(v)) {
    const std::string_view bits = t == DType::f32 ? "__int_as_float(0x7f800000)" : "__longlong_as_double(0x7ff0000000000000ll)";
    return fmt::format("{}{}", v < 0 ? "-" : "", bits);
  }
  // Hexadecimal: the very bits. A float's constant is rounded here, once.
  return t == DType::f32 ? fmt::format("{:a}{}", static_cast<double>(static_cast<float>(v)), suffix) : fmt::format("{:a}", v);
}

std::string converted(const std::string& v, DType from, DType to) {
  const bool half_from = from == DType::f16 || from == DType::bf16, half_to = to == DType::f16 || to == DType::bf16;
  if (half_from) {
    const std::string wide = fmt::format("{}({})", from == DType::f16 ? "__half2float" : "__bfloat162float", v);
    return to == DType::f32 ? wide : converted(wide, DType::f32, to);
  }
  if (half_to) {
    if (from == DType::f64) return fmt::format("{}({})", to == DType::f16 ? "__double2half" : "__double2bfloat16", v);
    const std::string wide = from == DType::f32 ? v : fmt::format("float({})", v);
    return fmt::format("{}({})", to == DType::f16 ? "__float2half_rn" : "__float2bfloat16_rn", wide);
  }
  if (to == DType::boolean) return fmt::format("{} != ({})0", v, cuda_type(from));
  if (is_float(from) && is_integer(to)) {
    // [smallest, top): top is a power of two, which every float type holds.
    const int width = bits(to) - (is_signed(to) ? 1 : 0);
    const std::string type(cuda_type(to));
    const std::string ones = fmt::format("({})(~0ull >> {})", type, 64 - width);
    return fmt::format("smelt_expr::saturated<{}, {}>({}, {}, {}, {})", type, cuda_type(from), v,
                       literal(from, std::ldexp(1.0, width)),
                       is_signed(to) ? fmt::format("({})(~{})", type, ones) : fmt::format("({})0", type), ones);
  }
  return fmt::format("({})({})", cuda_type(to), v);
}

}  // namespace

std::string_view cuda_prelude() { return prelude; }

std::string_view cuda_type(DType t) {
  switch (t) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::f16: return "__half";
    case DType::bf16: return "__nv_bfloat16";
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

std::string to_cuda(const Program& p, std::string_view name) {
  std::string s = fmt::format("struct {} {{\n", name);
  auto out = std::back_inserter(s);
  // The functions that are called, each once, as functions.def has them.
  std::set<Fn> used;
  for (const Instruction& c : p.code())
    if (c.fn > Fn::cast && used.insert(c.fn).second)
      fmt::format_to(out,
                     "  template <class A, class T> static __device__ __forceinline__ auto {}(A a, T b, T c) {{ using namespace "
                     "smelt_expr; return {}; }}\n",
                     fmt::format("fn_{}", info(c.fn).name), info(c.fn).code);
  s += "  static __device__ __forceinline__ void apply(";
  for (int i = 0; i < p.input_count(); ++i) fmt::format_to(out, "{}{} v{}", i ? ", " : "", cuda_type(p.type(i)), i);
  for (size_t o = 0; o < p.outputs().size(); ++o)
    fmt::format_to(out, "{}{}& out{}", o || p.input_count() ? ", " : "", cuda_type(p.type(p.outputs()[o])), o);
  s += ") {\n";
  for (size_t i = static_cast<size_t>(p.input_count()); i < p.code().size(); ++i) {
    const Instruction& c = p.code()[i];
    auto arg = [&](int k) { return fmt::format("v{}", c.args[k]); };
    std::string value;
    if (c.fn == Fn::constant) {
      value = literal(c.type, c.value);
    } else if (c.fn == Fn::cast) {
      value = converted(arg(0), p.type(c.args[0]), c.type);
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
