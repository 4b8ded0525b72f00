#include "ops/cuda/kernel_log.h"

#include <string_view>
#include <vector>

namespace smelt::ops {
namespace {

/// What stands between `begin` and the next `end` behind it, for each `begin` in the text.
std::vector<std::string_view> between(std::string_view text, std::string_view begin, std::string_view end) {
  std::vector<std::string_view> found;
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    found.push_back(text.substr(at, text.find(end, at) - at));
  }
  return found;
}

}  // namespace

std::string log_name(const device::cuda::Source& source, const std::string& entry) {
  std::string name;
  for (const std::string_view header : between(source.code, "#include \"", "\""))
    if (name.empty() || name.starts_with("common/")) name = header;
  for (const std::string_view type : between(source.code, "using ", ";"))
    if (const size_t from = type.find("= "), to = type.find('<'); from < to && to != type.npos)
      if (const std::string made = " " + std::string(type.substr(from + 2, to - from - 2)); !name.ends_with(made)) name += made;
  return name + ": " + entry;
}

void KernelLog::compiled(const std::string& name) {
  std::lock_guard lock(mutex_);
  compiled_.insert(name);
}

void KernelLog::launched(const std::string& name) {
  std::lock_guard lock(mutex_);
  launched_.insert(name);
}

std::set<std::string> KernelLog::compiled() const {
  std::lock_guard lock(mutex_);
  return compiled_;
}

std::set<std::string> KernelLog::launched() const {
  std::lock_guard lock(mutex_);
  return launched_;
}

}  // namespace smelt::ops
