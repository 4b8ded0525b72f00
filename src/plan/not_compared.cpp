#include "plan/not_compared.h"

#include <algorithm>

namespace smelt::plan {
namespace {

constexpr auto reasons = static_cast<size_t>(NotCompared::count);

const std::array<std::shared_ptr<const FusedTimes>, reasons>& all() {
  static const auto made = [] {
    std::array<std::shared_ptr<const FusedTimes>, reasons> a;
    for (auto& times : a) times = std::make_shared<const FusedTimes>(FusedTimes{.measured = false});
    return a;
  }();
  return made;
}

}  // namespace

std::shared_ptr<const FusedTimes> no_times(NotCompared why) { return all()[static_cast<size_t>(why)]; }

NotCompared why_not(const std::shared_ptr<const FusedTimes>& times) {
  const auto at = std::find(all().begin(), all().end(), times);
  return at == all().end() ? NotCompared::no : static_cast<NotCompared>(at - all().begin());
}

}  // namespace smelt::plan
