#include "fuse/name_patterns.h"

#include <algorithm>

namespace smelt::fuse {

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_called(const Graph& g, const Node& n, std::string_view pattern) {
  if (matches(pattern, n.name)) return true;
  return std::ranges::any_of(n.sources, [&](int32_t s) {
    const SourceNode& source = g.sources()[static_cast<size_t>(s)];
    return matches(pattern, source.name) ||
           std::ranges::any_of(source.scopes, [&](const auto& scope) { return !scope.empty() && matches(pattern, scope); });
  });
}

}  // namespace smelt::fuse
