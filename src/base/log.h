// Lines on stderr, for problems that end nothing and throw nothing. SMELT_LOG is quiet, warning (the default), info or debug.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace smelt {

enum class LogLevel { quiet, warning, info, debug };

/// Parses SMELT_LOG's value; warning for anything else.
LogLevel parse_log_level(std::string_view text);
bool logs(LogLevel level);
/// "smelt: warning: LINE", in one write, so that lines of several threads do not mix.
void log_line(LogLevel level, std::string_view line);

template <class... A> void warn(fmt::format_string<A...> f, A&&... a) {
  if (logs(LogLevel::warning)) log_line(LogLevel::warning, fmt::format(f, std::forward<A>(a)...));
}
template <class... A> void info(fmt::format_string<A...> f, A&&... a) {
  if (logs(LogLevel::info)) log_line(LogLevel::info, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace smelt
