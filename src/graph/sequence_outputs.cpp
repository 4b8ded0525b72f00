#include "graph/sequence_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

namespace smelt {
namespace {

std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
  return text;
}

std::string plain(const std::string& text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    name += !is_escape ? text[i] : text[i + 1] == 'n' ? '\n' : text[i + 1];
    i += is_escape;
  }
  return name;
}

}  // namespace

std::string print(const std::vector<SequenceOutput>& sequences) {
  std::string text;
  for (const SequenceOutput& s : sequences)
    text += fmt::format("{} {} {} {}\n", s.first, s.stacked ? "stacked" : std::to_string(s.count), static_cast<int>(s.type),
                        escaped(s.name));
  return text;
}

std::vector<SequenceOutput> sequences_in(const std::map<std::string, std::string>& metadata) {
  const auto entry = metadata.find(sequences_key);
  std::vector<SequenceOutput> sequences;
  if (entry == metadata.end()) return sequences;
  std::istringstream lines(entry->second);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    SequenceOutput s;
    std::string count;
    int type = 0;
    if (!(fields >> s.first >> count >> type) || fields.get() != ' ') return {};
    s.type = static_cast<DType>(type);
    s.stacked = count == "stacked";
    if (!s.stacked &&
        (count.empty() || !std::ranges::all_of(count, [](char c) { return c >= '0' && c <= '9'; }) || count.size() > 9))
      return {};
    s.count = s.stacked ? 1 : std::stoul(count);
    std::string name;
    std::getline(fields, name);
    s.name = plain(name);
    sequences.push_back(std::move(s));
  }
  return sequences;
}

}  // namespace smelt
