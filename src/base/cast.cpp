// Tensor::cast. Types that C++ stores (dispatch) convert directly; the packed and 8-bit ones go through double, which holds
// each of their values, and strings through text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/minifloat.h"
#include "base/number.h"
#include "smelt/tensor.h"

namespace smelt {
namespace {

template <class T> constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

/// As the expression language has it (expr/program.h), so that results do not change with what runs by which kernel.
template <class To> To to_integer(double v) { return std::isnan(v) ? To{} : truncated<To>(v); }

template <class To, class From> To convert(From v) {
  if constexpr (std::is_same_v<From, To>)
    return v;
  else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (is_half<From>)
      return static_cast<float>(v) != 0;
    else
      return v != From{};
  } else if constexpr (is_half<To>) {
    if constexpr (std::is_same_v<From, float> || is_half<From> || sizeof(From) <= 2)
      return To(static_cast<float>(v));
    else {
      To out;  // one rounding, not two
      out.bits = static_cast<uint16_t>(encode(mini_float(dtype_of<To>::value), static_cast<double>(v), false));
      return out;
    }
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (is_half<From>)
      return static_cast<To>(static_cast<float>(v));
    else
      return static_cast<To>(v);
  } else if constexpr (is_half<From> || std::is_floating_point_v<From>) {
    return to_integer<To>(static_cast<double>(v));
  } else {
    return static_cast<To>(v);
  }
}

bool is_packed(DType t) { return bits(t) < 8; }
bool is_small_float(DType t) { return is_float(t) && bits(t) <= 8; }

uint32_t get_packed(const uint8_t* data, int width, int64_t i) {
  const int per_byte = 8 / width, shift = static_cast<int>(i % per_byte) * width;
  return (data[i / per_byte] >> shift) & ((1u << width) - 1);
}

void set_packed(uint8_t* data, int width, int64_t i, uint32_t code) {  // on zeroed bytes
  const int per_byte = 8 / width, shift = static_cast<int>(i % per_byte) * width;
  data[i / per_byte] |= static_cast<uint8_t>((code & ((1u << width) - 1)) << shift);
}

/// The formats of 8 bits with a sign: what `encode` takes by many numbers.
bool is_byte_float(DType t) { return is_small_float(t) && bits(t) == 8 && t != DType::f8e8m0; }

/// By code, what it is as f32, exactly.
const std::array<float, 256>& decoded(DType t) {
  const auto all = [](DType type) {
    std::array<float, 256> numbers;
    for (uint32_t code = 0; code < 256; ++code) numbers[code] = static_cast<float>(decode(mini_float(type), code));
    return numbers;
  };
  static const std::array<float, 256> e4m3fn = all(DType::f8e4m3fn), e4m3fnuz = all(DType::f8e4m3fnuz), e5m2 = all(DType::f8e5m2),
                                      e5m2fnuz = all(DType::f8e5m2fnuz);
  return t == DType::f8e4m3fn ? e4m3fn : t == DType::f8e4m3fnuz ? e4m3fnuz : t == DType::f8e5m2 ? e5m2 : e5m2fnuz;
}

/// 2-, 4- and 8-bit types that C++ does not store → f64, exactly.
Tensor widen(const Tensor& from) {
  Tensor out = Tensor::empty(DType::f64, from.shape());
  const auto* in = static_cast<const uint8_t*>(from.raw());
  double* to = out.data<double>();
  const DType t = from.type();
  const int width = bits(t);
  for (int64_t i = 0; i < from.size(); ++i) {
    const uint32_t code = width < 8 ? get_packed(in, width, i) : in[i];
    if (t == DType::f8e8m0)
      to[i] = decode_e8m0(static_cast<uint8_t>(code));
    else if (is_float(t))
      to[i] = decode(mini_float(t), code);
    else
      to[i] = is_signed(t) && code >> (width - 1) ? static_cast<double>(code) - (1 << width) : code;
  }
  return out;
}

/// f64 → the types that widen reads.
Tensor narrow(const Tensor& from, DType t, const CastOptions& options) {
  Tensor out = Tensor::zeros(t, from.shape());
  auto* to = static_cast<uint8_t*>(out.raw());
  const double* in = from.data<double>();
  const int width = bits(t);
  for (int64_t i = 0; i < from.size(); ++i) {
    uint32_t code;
    if (t == DType::f8e8m0)
      code = encode_e8m0(static_cast<float>(in[i]), options);
    else if (is_float(t))
      code = encode(mini_float(t), in[i], options.saturate);
    else
      code = static_cast<uint32_t>(truncated(in[i]));
    if (width < 8)
      set_packed(to, width, i, code);
    else
      to[i] = static_cast<uint8_t>(code);
  }
  return out;
}

template <class T> std::string to_decimal(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return v ? "True" : "False";
  else if constexpr (is_half<T>)
    return to_decimal(static_cast<float>(v));
  else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
    std::string s = fmt::format("{}", v);
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return s;
  } else {
    return fmt::format("{}", v);
  }
}

Tensor to_text(const Tensor& from) {
  std::vector<std::string> out;
  out.reserve(static_cast<size_t>(from.size()));
  dispatch(from.type(), "Cast to string", [&](auto zero) {
    for (auto v : from.span<decltype(zero)>()) out.push_back(to_decimal(v));
  });
  return Tensor::of_strings(from.shape(), std::move(out));
}

template <class T> T parse_number(const std::string& s) {
  const char* begin = s.c_str();
  char* end = nullptr;
  T value;
  if constexpr (std::is_floating_point_v<T>)
    value = static_cast<T>(std::strtod(begin, &end));  // INF and NaN too
  else if constexpr (std::is_same_v<T, uint64_t>)
    value = std::strtoull(begin, &end, 10);
  else
    value = std::strtoll(begin, &end, 10);
  if constexpr (!std::is_floating_point_v<T>)
    if (end != begin && *end) value = to_integer<T>(std::strtod(begin, &end));  // "1e3"
  if (end == begin || *end) fail("Cast: the string '{}' is no number", s);
  return value;
}

Tensor from_text(const Tensor& from, DType to) {
  const auto parse = [&]<class T>(T) {
    Tensor out = Tensor::empty(dtype_of<T>::value, from.shape());
    T* p = out.data<T>();
    for (const std::string& s : from.strings()) *p++ = parse_number<T>(s);
    return out;
  };
  if (to == DType::u64) return parse(uint64_t{});
  return is_integer(to) || to == DType::boolean ? parse(int64_t{}) : to == DType::f32 ? parse(float{}) : parse(double{});
}

}  // namespace

Tensor Tensor::cast(DType to, CastOptions options) const {
  if (!valid()) fail("Cast: there is no tensor to convert");
  if (to == type_) return clone();
  for (DType t : {type_, to})
    if (t == DType::undefined || t == DType::c64 || t == DType::c128)
      fail_unsupported("Cast from {} to {} is not defined", name(type_), name(to));
  const bool wide = !is_packed(type_) && !is_small_float(type_);
  if (to == DType::string) return to_text(wide ? *this : widen(*this).cast(DType::f32));
  if (type_ == DType::string) return from_text(*this, to).cast(to, options);
  if (!wide && is_integer(type_) && is_integer(to)) return widen(*this).cast(DType::i64).cast(to, options);  // lowest bits
  if (is_byte_float(type_) && to == DType::f32) {
    Tensor out = empty(to, shape_);
    const std::array<float, 256>& numbers = decoded(type_);
    const auto* codes = static_cast<const uint8_t*>(raw());
    std::transform(codes, codes + size_, out.data<float>(), [&](uint8_t code) { return numbers[code]; });
    return out;
  }
  if (!wide) return widen(*this).cast(to, options);
  if (is_byte_float(to) && (type_ == DType::f32 || type_ == DType::f16 || type_ == DType::bf16)) {
    const Tensor floats = type_ == DType::f32 ? *this : cast(DType::f32);
    Tensor out = empty(to, shape_);
    encode(mini_float(to), floats.data<float>(), size_, options.saturate, static_cast<uint8_t*>(out.raw()));
    return out;
  }
  if (is_packed(to) || is_small_float(to)) return narrow(type_ == DType::f64 ? *this : cast(DType::f64), to, options);

  Tensor out = empty(to, shape_);
  dispatch(type_, "Cast", [&](auto from_zero) {
    using From = decltype(from_zero);
    dispatch(to, "Cast", [&](auto to_zero) {
      using To = decltype(to_zero);
      const From* in = static_cast<const From*>(data_);
      To* result = static_cast<To*>(out.data_);
      for (int64_t i = 0; i < size_; ++i) result[i] = convert<To>(in[i]);
    });
  });
  return out;
}

}  // namespace smelt
