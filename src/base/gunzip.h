// Files that were packed by gzip.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace smelt {

/// Whether a file's first bytes are those of gzip.
inline bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b"); }

/// What was packed; members behind each other are one text. Throws Error (failed) for what is damaged or cut off, and for more than
/// `most` bytes: some kilobytes may unpack to gigabytes.
std::string gunzip(std::string_view packed, size_t most = size_t{4} << 30);

}  // namespace smelt
