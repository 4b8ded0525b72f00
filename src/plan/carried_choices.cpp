#include "plan/carried_choices.h"

#include <fmt/ranges.h>

#include <charconv>
#include <sstream>
#include <string_view>

namespace smelt::plan {
namespace {

constexpr const char *device_key = "smelt.plan.device", *tactics_key = "smelt.plan.tactics", *plain_key = "smelt.plan.plain",
                     *apart_key = "smelt.plan.apart", *profiles_key = "smelt.plan.profiles", *timings_key = "smelt.plan.timings";
constexpr std::string_view scalar = "scalar";

std::string extract(std::map<std::string, std::string>& metadata, const char* key) {
  auto node = metadata.extract(key);
  return node ? std::move(node.mapped()) : "";
}

/// A name as a line: names may hold ends of lines.
std::string line_of(std::string_view name) {
  std::string line;
  for (const char c : name) c == '\n' ? line += "\\n" : c == '\\' ? line += "\\\\" : line += c;
  return line;
}
std::string name_in(std::string_view line) {
  std::string name;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escaped = line[i] == '\\' && i + 1 < line.size();
    if (escaped) ++i;
    name += escaped && line[i] == 'n' ? '\n' : line[i];
  }
  return name;
}

std::string lines_of(const std::set<std::string>& names) {
  std::vector<std::string> lines;
  for (const std::string& n : names) lines.push_back(line_of(n));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// The entry's lines, which is removed; nothing where there is none.
std::optional<std::set<std::string>> lines_in(std::map<std::string, std::string>& metadata, const char* key) {
  if (!metadata.contains(key)) return std::nullopt;
  std::set<std::string> lines;
  std::istringstream in(extract(metadata, key));
  for (std::string line; std::getline(in, line);) lines.insert(name_in(line));
  return lines;
}

std::string text_of(const Shape& s) { return s.empty() ? std::string(scalar) : fmt::format("{}", fmt::join(s, "x")); }

std::optional<Shape> shape_in(std::string_view text) {
  Shape shape;
  if (text == scalar) return shape;
  for (const char *p = text.data(), *stop = p + text.size();; ++p) {
    int64_t extent = 0;
    const auto read = std::from_chars(p, stop, extent);
    if (read.ec != std::errc() || extent < 0) return std::nullopt;
    shape.push_back(extent);
    p = read.ptr;
    if (p == stop) return shape;
    if (*p != 'x') return std::nullopt;
  }
}

std::vector<ShapeProfile> profiles_in(const std::string& text) {
  std::vector<ShapeProfile> profiles;
  if (text.empty()) return profiles;
  profiles.emplace_back();
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      profiles.emplace_back();
      continue;
    }
    std::istringstream words(line);
    std::string shapes[3], name;
    words >> shapes[0] >> shapes[1] >> shapes[2];
    words.get();  // the space
    std::getline(words, name);
    const auto min = shape_in(shapes[0]), opt = shape_in(shapes[1]), max = shape_in(shapes[2]);
    if (!words || !min || !opt || !max) return {};
    profiles.back()[name] = {*min, *opt, *max};
  }
  return profiles;
}

}  // namespace

tune::PinnedChoices choices_in(const std::string& tactics) {
  tune::PinnedChoices choices;
  std::istringstream in(tactics);
  for (std::string line; std::getline(in, line);) {
    const size_t last = line.rfind('\t');
    if (last == line.npos || last == 0) continue;
    const size_t first = line.rfind('\t', last - 1);
    if (first == line.npos) continue;
    const std::string tactic = line.substr(last + 1);
    const size_t space = std::min(tactic.find(' '), tactic.size());
    choices[line.substr(first + 1, last - first - 1)] = {tactic.substr(0, space),
                                                         tactic.substr(std::min(space + 1, tactic.size()))};
  }
  return choices;
}

CarriedChoices read_choices(std::map<std::string, std::string>& metadata) {
  CarriedChoices carried;
  carried.device = extract(metadata, device_key);
  if (const auto at = metadata.find(tactics_key); at != metadata.end()) carried.choices = choices_in(at->second);
  carried.plain = lines_in(metadata, plain_key);
  carried.apart = lines_in(metadata, apart_key);
  carried.profiles = profiles_in(extract(metadata, profiles_key));
  carried.timings = extract(metadata, timings_key);
  carried.early = read_early_launch(metadata);
  return carried;
}

void write_choices(const CarriedChoices& carried, std::map<std::string, std::string>& metadata) {
  metadata[device_key] = carried.device;
  std::string tactics;
  for (const auto& [problem, chosen] : carried.choices)
    tactics += fmt::format("\t{}\t{}{}{}\n", problem, chosen.tactic, chosen.config.empty() ? "" : " ", chosen.config);
  if (!tactics.empty()) metadata[tactics_key] = tactics;
  if (carried.plain) metadata[plain_key] = lines_of(*carried.plain);
  if (carried.apart) metadata[apart_key] = lines_of(*carried.apart);
  std::string profiles;
  for (const ShapeProfile& profile : carried.profiles) {
    if (!profiles.empty()) profiles += '\n';
    for (const auto& [name, r] : profile)
      profiles += fmt::format("{} {} {} {}\n", text_of(r.min), text_of(r.opt), text_of(r.max), name);
  }
  if (!profiles.empty()) metadata[profiles_key] = profiles;
  if (!carried.timings.empty()) metadata[timings_key] = carried.timings;
}

}  // namespace smelt::plan
