// Where the time of a build goes.
#pragma once

#include <chrono>
#include <mutex>
#include <string_view>
#include <vector>

#include "smelt/session.h"

namespace smelt::run {

/// Seconds by stage, in the order in which the stages first ended. Thread-safe.
class Stages {
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
  explicit StageClock(Stages& stages) : stages_(stages) {}
  /// What was done since the last call, or since this was made, is that stage's.
  void end(std::string_view stage);
  /// What was done since the last call is none of this clock's.
  void restart() { begin_ = std::chrono::steady_clock::now(); }

 private:
  Stages& stages_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace smelt::run
