#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/printable.h"

namespace smelt {

LogLevel parse_log_level(std::string_view text) {
  if (text == "quiet") return LogLevel::quiet;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return LogLevel::warning;
}

bool logs(LogLevel level) {
  static const LogLevel limit = [] {
    const char* text = std::getenv("SMELT_LOG");
    return parse_log_level(text ? text : "");
  }();
  return level != LogLevel::quiet && level <= limit;
}

void log_line(LogLevel level, std::string_view line) {
  const std::string text = fmt::format("smelt: {}{}\n", level == LogLevel::warning ? "warning: " : "", printable(line));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace smelt
