// Bytes as text that any file format takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace smelt {

/// RFC 4648, section 4, with padding.
std::string to_base64(std::string_view bytes);
/// Nothing for what to_base64 does not write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace smelt
