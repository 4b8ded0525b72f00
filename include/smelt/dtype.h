// Element types, numbered as ONNX numbers them (TensorProto.DataType), and the 16-bit floating-point formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "smelt/export.h"

namespace smelt {

enum class DType : uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};

/// "f32", "bf16", "i64", "bool"; the short name that problems, tables and expressions print.
SMELT_API std::string_view name(DType t);
/// The type of that name; nothing when the text names no type.
SMELT_API std::optional<DType> parse_dtype(std::string_view text);

/// Bits in one element: 32 for f32, 4 for i4, 0 for string and undefined.
SMELT_API int bits(DType t);
/// Bytes that `count` elements take. Sub-byte types are packed two or four to a byte, as ONNX packs them.
/// Throws on overflow of int64_t.
SMELT_API int64_t bytes(DType t, int64_t count);

SMELT_API bool is_float(DType t);    // f16, bf16, f32, f64 and the 8- and 4-bit formats
SMELT_API bool is_integer(DType t);  // signed and unsigned, 2 to 64 bits; not bool
SMELT_API bool is_signed(DType t);

/// IEEE binary16, round to nearest even.
SMELT_API float half_to_float(uint16_t bits);
SMELT_API uint16_t float_to_half(float value);
/// The upper half of binary32, round to nearest even; a NaN stays a NaN.
SMELT_API float bfloat_to_float(uint16_t bits);
SMELT_API uint16_t float_to_bfloat(float value);

struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float v) : bits(float_to_half(v)) {}
  operator float() const { return half_to_float(bits); }
};

struct BFloat {
  uint16_t bits = 0;
  BFloat() = default;
  explicit BFloat(float v) : bits(float_to_bfloat(v)) {}
  operator float() const { return bfloat_to_float(bits); }
};

template <class T> struct dtype_of;
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of<Half> { static constexpr DType value = DType::f16; };
template <> struct dtype_of<BFloat> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of<int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<int16_t> { static constexpr DType value = DType::i16; };
template <> struct dtype_of<int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of<int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of<uint16_t> { static constexpr DType value = DType::u16; };
template <> struct dtype_of<uint32_t> { static constexpr DType value = DType::u32; };
template <> struct dtype_of<uint64_t> { static constexpr DType value = DType::u64; };
template <> struct dtype_of<bool> { static constexpr DType value = DType::boolean; };

}  // namespace smelt
