// Where the time of a build goes: seconds by stage (smelt::BuildStage).
#pragma once

#include <chrono>
#include <mutex>
#include <string_view>
#include <vector>

#include "smelt/session.h"

namespace smelt::plan {

/// Seconds by stage, in the order in which the stages first ended. Thread-safe.
class StageTimes {
 public:
  void add(std::string_view name, double seconds);
  std::vector<BuildStage> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<BuildStage> stages_;
};

/// A clock for stages that follow each other in one thread.
class StageClock {
 public:
  explicit StageClock(StageTimes& times) : times_(times) {}
  /// Adds the time since the last call, or since the clock was made, to that stage.
  void end(std::string_view stage);
  /// Adds the time since the last call to no stage.
  void restart() { begin_ = std::chrono::steady_clock::now(); }

 private:
  StageTimes& times_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace smelt::plan
