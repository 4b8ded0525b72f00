// --tactics: which implementations may be used.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::tune {

/// "+onednn,-reference": items separated by commas, each + (allow) or - (refuse) and a tactic's name or "all"; everything is
/// allowed to begin with, and later items override earlier ones. "-all,+onednn" leaves onednn only.
class TacticFilter {
 public:
  TacticFilter() = default;
  /// Throws Error (usage) for an item without a sign, an empty name, or a name not in `known`, which it lists. With no
  /// `known` names any name is taken.
  static TacticFilter parse(std::string_view text, std::span<const std::string_view> known = {});
  bool allows(std::string_view tactic) const;
  /// Whether it is allowed by its own name: of what is off to begin with.
  bool asks_for(std::string_view tactic) const;
  /// As it was given.
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
