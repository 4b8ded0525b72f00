#include "base/printable.h"

namespace smelt {

std::string printable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    const bool two = c == 0xc2 && next >= 0x80 && next <= 0x9f;  // UTF-8 of U+0080 to U+009F
    const bool control = (c < ' ' && c != '\n' && c != '\t') || c == 0x7f || two;
    if (!control) {
      out += text[i];
      continue;
    }
    const unsigned code = two ? next : c;
    out += "\\x";
    out += digits[code >> 4];
    out += digits[code & 15];
    i += two;
  }
  return out;
}

}  // namespace smelt
