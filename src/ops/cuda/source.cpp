#include "ops/cuda/source.h"

namespace smelt::ops {

std::string config_source(std::string_view type, const std::vector<std::pair<std::string_view, int64_t>>& constants) {
  std::string text;
  for (const auto& [name, value] : constants) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  return fmt::format("{}{{{}}}", type, text);
}

std::string entry_source(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                         std::string_view body) {
  std::string given;
  for (const Parameter& p : parameters) given += (given.empty() ? "" : ", ") + p.name;
  return entry_of_statement(name, bounds, parameters, fmt::format("{}({});", body, given));
}

std::string entry_of_statement(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                               std::string_view statement) {
  std::string declared;
  for (const Parameter& p : parameters) {
    const bool as_it_is = p.type.starts_with("const ") || p.type.ends_with('*');
    declared +=
        fmt::format("{}{}{} {}", declared.empty() ? "" : ", ", as_it_is ? "" : "const __grid_constant__ ", p.type, p.name);
  }
  return entry_of_text(name, bounds, declared, statement);
}

std::string entry_of_text(std::string_view name, std::string_view bounds, std::string_view parameters,
                          std::string_view statement) {
  return fmt::format("\nextern \"C\" __global__ void __launch_bounds__({})\n{}({}) {{\n  {}\n}}\n", bounds, name, parameters,
                     statement);
}

}  // namespace smelt::ops
