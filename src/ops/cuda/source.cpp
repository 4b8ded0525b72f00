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

std::string entry_source(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                         std::string_view body) {
  std::string given;
  for (const Parameter& p : parameters) given += (given.empty() ? "" : ", ") + p.name;
  return entry_of_statement(name, bounds, parameters, fmt::format("{}({});", body, given));
}

std::string entry_of_statement(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                               std::string_view statement) {
  std::string members, names;
  for (const Parameter& p : parameters) {
    const std::string type = p.type.starts_with("const ") && !p.type.ends_with('*') ? p.type.substr(6) : p.type;
    members += fmt::format("  {} {};\n", type, p.name);
    names += (names.empty() ? "" : ", ") + p.name;
  }
  return fmt::format(
      "\nstruct {0}_arguments {{\n{1}}};\n"
      "extern \"C\" __global__ void __launch_bounds__({2})\n{0}(const __grid_constant__ {0}_arguments arguments) {{\n"
      "  const auto& [{3}] = arguments;\n  {4}\n}}\n",
      name, members, bounds, names, statement);
}

std::string entry_of_text(std::string_view name, std::string_view bounds, std::string_view parameters,
                          std::string_view statement) {
  std::vector<Parameter> list;
  int depth = 0;
  for (size_t begin = 0, at = 0; at <= parameters.size(); ++at) {
    if (at < parameters.size()) depth += (parameters[at] == '<') - (parameters[at] == '>');
    if (at < parameters.size() && (parameters[at] != ',' || depth > 0)) continue;
    std::string one(parameters.substr(begin, at - begin));
    one.erase(0, one.find_first_not_of(' '));
    if (one.starts_with("const __grid_constant__ ")) one.erase(6, 18);
    const size_t space = one.rfind(' ');
    list.push_back({one.substr(0, space), one.substr(space + 1)});
    begin = at + 1;
  }
  return entry_of_statement(name, bounds, list, statement);
}

}  // namespace smelt::ops
