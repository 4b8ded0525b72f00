#include "base/printable.h"

namespace smelt {
namespace {

/// The bytes of the character at the beginning of the text; 0 where it is no UTF-8.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned c = at(0);
  const size_t length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; ++i)
    if (at(i) >> 6 != 2) return 0;
  const bool too_long = (c == 0xe0 && at(1) < 0xa0) || (c == 0xf0 && at(1) < 0x90);
  const bool no_character = (c == 0xed && at(1) >= 0xa0) || (c == 0xf4 && at(1) >= 0x90);
  return too_long || no_character ? 0 : length;
}

/// Whether it turns the direction of what is behind it (U+202A to U+202E, U+2066 to U+2069): a line then reads other than it is.
bool turns(std::string_view character) {
  return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = utf8_length(text.substr(i));
    const bool wide_control = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[i + 1]) <= 0x9f;  // U+0080 to U+009F
    const bool control = (c < ' ' && c != '\n' && c != '\t') || c == 0x7f || wide_control;
    if (length == 3 && turns(text.substr(i, length))) {
      out += text[i + 1] == '\x80' ? "\\u202" : "\\u206";
      out += digits[static_cast<unsigned char>(text[i + 2]) & 15];
      i += length;
      continue;
    }
    if (length > 0 && !control) {
      out += text.substr(i, length);
      i += length;
      continue;
    }
    const unsigned code = wide_control ? static_cast<unsigned char>(text[i + 1]) : c;
    out += "\\x";
    out += digits[code >> 4];
    out += digits[code & 15];
    i += wide_control ? 2 : 1;
  }
  return out;
}

}  // namespace smelt
