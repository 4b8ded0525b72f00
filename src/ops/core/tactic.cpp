#include "ops/core/tactic.h"

#include <algorithm>

namespace smelt::ops {

bool generates_code(std::string_view tactic) { return tactic == "onednn"; }

void Offer::refuse(std::string tactic, Refusal why) {
  const auto same = [&](const RefusedTactic& r) { return r.tactic == tactic && r.why.text == why.text; };
  if (std::ranges::none_of(refused, same)) refused.push_back({std::move(tactic), std::move(why)});
}

}  // namespace smelt::ops
