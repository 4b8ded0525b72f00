#include "ops/cuda/dependent_launch.h"

namespace smelt::ops {

std::string add_dependency_wait(std::string code) {
  if (code.starts_with(waits_itself)) return code;
  constexpr std::string_view kernel = "__global__", wait = "\n  wait_for_kernels_before();";
  for (size_t at = code.find(kernel); at != std::string::npos; at = code.find(kernel, at)) {
    // The body's brace is the first outside of parentheses.
    int depth = 0;
    for (at += kernel.size(); at < code.size() && (depth > 0 || code[at] != '{'); ++at)
      depth += (code[at] == '(') - (code[at] == ')');
    if (at < code.size()) code.insert(at + 1, wait);
  }
  return "#include \"common/dependent_launch.cuh\"\n" + code;
}

}  // namespace smelt::ops
