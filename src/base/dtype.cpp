#include "smelt/dtype.h"

#include <bit>
#include <iterator>

#include "base/error.h"

namespace smelt {
namespace {

enum class Kind : uint8_t { other, real, integer, natural };  // natural: unsigned

struct Row {
  std::string_view name;
  int bits;
  Kind kind;
};

// In DType's order.
constexpr Row rows[] = {
    {"undefined", 0, Kind::other}, {"f32", 32, Kind::real},     {"u8", 8, Kind::natural},      {"i8", 8, Kind::integer},
    {"u16", 16, Kind::natural},    {"i16", 16, Kind::integer},  {"i32", 32, Kind::integer},    {"i64", 64, Kind::integer},
    {"string", 0, Kind::other},    {"bool", 8, Kind::other},    {"f16", 16, Kind::real},       {"f64", 64, Kind::real},
    {"u32", 32, Kind::natural},    {"u64", 64, Kind::natural},  {"c64", 64, Kind::other},      {"c128", 128, Kind::other},
    {"bf16", 16, Kind::real},      {"f8e4m3fn", 8, Kind::real}, {"f8e4m3fnuz", 8, Kind::real}, {"f8e5m2", 8, Kind::real},
    {"f8e5m2fnuz", 8, Kind::real}, {"u4", 4, Kind::natural},    {"i4", 4, Kind::integer},      {"f4e2m1", 4, Kind::real},
    {"f8e8m0", 8, Kind::real},     {"u2", 2, Kind::natural},    {"i2", 2, Kind::integer},
};

const Row& row(DType t) {
  const auto i = static_cast<size_t>(t);
  if (i >= std::size(rows)) fail("element type {} is not one that smelt knows (0 to {})", i, std::size(rows) - 1);
  return rows[i];
}

}  // namespace

std::string_view name(DType t) { return row(t).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 1; i < std::size(rows); ++i)
    if (rows[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

int bits(DType t) { return row(t).bits; }

int64_t bytes(DType t, int64_t count) {
  int64_t all, rounded;
  if (count < 0 || __builtin_mul_overflow(count, int64_t{row(t).bits}, &all) || __builtin_add_overflow(all, int64_t{7}, &rounded))
    fail("{} elements of {} take more bytes than can be counted", count, row(t).name);
  return rounded / 8;
}

bool is_float(DType t) { return row(t).kind == Kind::real; }
bool is_integer(DType t) { return row(t).kind == Kind::integer || row(t).kind == Kind::natural; }
bool is_signed(DType t) { return (row(t).kind == Kind::real && t != DType::f8e8m0) || row(t).kind == Kind::integer; }

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // The exponent field is 112 too small; a multiplication by 2^112 mends it for subnormal numbers too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>((127u + 112) << 23);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), a = bits & 0x7fffffff;
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (a > 0x7f800000) return sign | 0x7e00 | static_cast<uint16_t>((a >> 13) & 0x3ff);
  if (a >= 0x47800000) return sign | 0x7c00;  // 65536 and more
  if (a < 0x38800000) {                       // below 2^-14: the last place of 0.5f is that of a subnormal half
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  const uint32_t even = (a >> 13) & 1;
  return sign | static_cast<uint16_t>((a - (112u << 23) + 0xfff + even) >> 13);
}

float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

uint16_t float_to_bfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace smelt
