// Telling the caller of a build how far its measuring is.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>

#include "smelt/session.h"

namespace smelt::plan {

/// Of so many things to measure, from now on. What the caller's function throws comes out of these.
class TuningProgress {
 public:
  /// `limit_s`: what measuring may take; 0: no limit.
  TuningProgress(const std::function<void(const Progress&)>& tell, int total, double limit_s = 0)
      : tell_(tell), total_(total), limit_s_(limit_s) {}

  /// So many are done, this one last.
  void done(std::string_view what, int count) {
    done_ = std::min(count, total_);
    if (!tell_ || done_ <= 0) return;
    double to_come = seconds() / done_ * (total_ - done_);
    if (limit_s_ > 0) to_come = std::min(to_come, std::max(0.0, limit_s_ - seconds()));
    tell_({"tuning", what, done_, total_, seconds(), to_come});
  }
  void one_more(std::string_view what) { done(what, done_ + 1); }
  /// There is no more to measure.
  void finish() const {
    if (tell_ && done_ > 0) tell_({"tuning", "", total_, total_, seconds(), 0});
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  const std::function<void(const Progress&)>& tell_;
  int total_, done_ = 0;
  double limit_s_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace smelt::plan
