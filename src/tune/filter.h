// --tactics: which implementations may be used.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::tune {

/// "+onednn,-reference": items separated by commas, each + (allow) or - (refuse) and a tactic's name or "all". At first every
/// tactic is allowed, and later items override earlier ones. "-all,+onednn" leaves onednn only.
class TacticFilter {
 public:
  TacticFilter() = default;
  /// Throws Error (usage) for an item without a sign, an empty name, or a name that is not in `known`; the error lists `known`.
  /// An empty `known` accepts any name.
  static TacticFilter parse(std::string_view text, std::span<const std::string_view> known = {});
  bool allows(std::string_view tactic) const;
  /// Whether an item allows the tactic by its own name, as those that are off by default need.
  bool asks_for(std::string_view tactic) const;
  /// The text that the filter was made from.
  const std::string& text() const { return text_; }

 private:
  struct Item {
    bool allow;
    std::string name;
  };
  std::vector<Item> items_;
  std::string text_;
};

}  // namespace smelt::tune
