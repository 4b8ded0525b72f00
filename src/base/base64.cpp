#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace smelt {
namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values = [] {
  std::array<int8_t, 256> v{};
  v.fill(-1);
  for (size_t i = 0; i < digits.size(); ++i) v[static_cast<uint8_t>(digits[i])] = static_cast<int8_t>(i);
  return v;
}();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= n ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    size_t n = 4;
    if (i + 4 == text.size())
      while (n > 2 && text[i + n - 1] == '=') --n;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int value = k < n ? values[static_cast<uint8_t>(text[i + k])] : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    if (n < 4 && (group & (n == 2 ? 0xffffu : 0xffu)) != 0) return std::nullopt;  // bits that no byte is made of
    for (size_t k = 0; k + 1 < n; ++k) bytes += static_cast<char>(group >> (16 - 8 * k));
  }
  return bytes;
}

}  // namespace smelt
