#include "ops/cuda/source.h"

namespace smelt::ops {

std::string config_source(std::string_view type, const std::vector<std::pair<std::string_view, int64_t>>& constants) {
  std::string text;
  for (const auto& [name, value] : constants) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  return fmt::format("{}{{{}}}", type, text);
}

std::string entry_source(const KernelEntry& e, size_t bytes) {
  return fmt::format(
      "\nstatic_assert(sizeof({0}) == {1}, \"the host lays out {1} bytes\");\n"
      "extern \"C\" __global__ void __launch_bounds__({2})\n{3}(const __grid_constant__ {0} args) {{\n  {4}(args);\n}}\n",
      e.arguments, bytes, e.bounds, e.name, e.body);
}

}  // namespace smelt::ops
