#include "ops/cuda/source.h"

namespace smelt::ops {

std::string config_source(std::string_view type, const std::vector<std::pair<std::string_view, int64_t>>& constants) {
  std::string text;
  for (const auto& [name, value] : constants) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  return fmt::format("\nconstexpr {} config{{{}}};\n", type, text);
}

std::string entry_source(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                         std::string_view body) {
  std::string declared, given;
  for (const Parameter& p : parameters) {
    const std::string_view comma = declared.empty() ? "" : ", ";
    declared += fmt::format("{}{}{} {}", comma, p.type.ends_with('*') ? "" : "const __grid_constant__ ", p.type, p.name);
    given += fmt::format("{}{}", comma, p.name);
  }
  return fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n  {}({});\n}}\n", bounds, name, declared,
                     body, given);
}

}  // namespace smelt::ops
