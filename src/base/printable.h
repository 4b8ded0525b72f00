// Text of models, files and names, as it may be shown.
#pragma once

#include <string>
#include <string_view>

namespace smelt {

/// The text with control characters, which could change a terminal's state or another line, as "\x1b": those below a space but for
/// ends of lines and tabs, DEL, and U+0080 to U+009F; so are bytes that are no UTF-8, of which Python can make no text.
std::string printable(std::string_view text);

}  // namespace smelt
