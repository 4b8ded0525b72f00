// What an offer asks of another one whose candidates it wraps: a pass behind them, copies before them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// For a wrapper whose configurations are the inner ones with `suffix` behind ", ", or the suffix alone.
class WantedInside {
 public:
  WantedInside(const Wanted& outer, std::string_view suffix) : at_once_(outer.at_once) {
    if (!outer.only) return;
    wraps_ = outer.only->config.ends_with(suffix);
    if (!wraps_) return;
    std::string config = outer.only->config.substr(0, outer.only->config.size() - suffix.size());
    if (config.ends_with(", ")) config.resize(config.size() - 2);
    only_ = ChosenTactic{outer.only->tactic, std::move(config)};
  }
  /// Whether the wrapper's candidates are wanted.
  bool wraps() const { return wraps_; }
  Wanted wanted() const { return {only_ ? &*only_ : nullptr, at_once_}; }
  /// Leaves those that are wanted.
  void keep(std::vector<Candidate>& candidates) const {
    if (only_) std::erase_if(candidates, [&](const Candidate& c) { return ChosenTactic{c.tactic, c.config} != *only_; });
  }

 private:
  std::optional<ChosenTactic> only_;
  bool wraps_ = true, at_once_;
};

}  // namespace smelt::ops
