#include "tune/filter.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace smelt::tune {

TacticFilter TacticFilter::parse(std::string_view text, std::span<const std::string_view> known) {
  TacticFilter filter;
  filter.text_ = text;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    if (item.empty() || (item[0] != '+' && item[0] != '-')) {
      fail_usage("--tactics={}: item '{}' at position {} must begin with + (allow) or - (refuse), as in \"+onednn,-reference\"",
                 text, item, begin);
    }
    const std::string_view name = item.substr(1);
    if (name.empty()) fail_usage("--tactics={}: no tactic's name behind '{}' at position {}", text, item, begin);
    if (!known.empty() && name != "all" && std::ranges::find(known, name) == known.end()) {
      fail_usage("--tactics={}: there is no tactic '{}'; there are all, {}", text, name, fmt::join(known, ", "));
    }
    filter.items_.push_back({item[0] == '+', std::string(name)});
    if (end == text.size() - 1) fail_usage("--tactics={}: nothing behind the last comma", text);
    begin = end + 1;
  }
  return filter;
}

bool TacticFilter::allows(std::string_view tactic) const {
  bool allowed = true;
  for (const Item& item : items_) {
    if (item.name == "all" || item.name == tactic) allowed = item.allow;
  }
  return allowed;
}

bool TacticFilter::asks_for(std::string_view tactic) const {
  const auto last = std::find_if(items_.rbegin(), items_.rend(), [&](const Item& item) { return item.name == tactic; });
  return last != items_.rend() && last->allow;
}

}  // namespace smelt::tune
