#include "plan/stage_times.h"

#include <algorithm>
#include <string>
#include <utility>

namespace smelt::plan {

void StageTimes::add(std::string_view name, double seconds) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(stages_, name, &BuildStage::name);
  if (at == stages_.end())
    stages_.push_back({std::string(name), seconds});
  else
    at->seconds += seconds;
}

std::vector<BuildStage> StageTimes::list() const {
  const std::lock_guard lock(mutex_);
  return stages_;
}

void StageClock::end(std::string_view stage) {
  const auto now = std::chrono::steady_clock::now();
  times_.add(stage, std::chrono::duration<double>(now - std::exchange(begin_, now)).count());
}

}  // namespace smelt::plan
