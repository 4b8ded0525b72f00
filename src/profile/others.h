// What other work on the machine takes of the runs that are timed, and what that costs them.
#pragma once

#include <vector>

#include "device/cpu/load.h"
#include "profile/profile.h"

namespace smelt::profile {

/// One run, or the mean of several in a row.
struct WatchedRun {
  double us = 0;
  int together = 1;                  // runs that `us` is the mean of
  device::cpu::Interruptions taken;  // from all of them
  bool disturbed = false;            // device::cpu::disturbed
};

/// `threads`: over which the time that threads waited is spread.
OtherWork other_work(const std::vector<WatchedRun>& runs, int threads);

/// The part of a run that was the process's own: without the time that its threads waited for a core, the hypervisor took or a quota
/// stood still.
double own_part(const device::cpu::Interruptions& taken, double us, int threads);

/// Watches runs one after the other.
class OthersMeter {
 public:
  OthersMeter();
  void begin() { before_ = meter_.full(); }
  /// What was taken since begin().
  device::cpu::Interruptions taken() const { return meter_.full() - before_; }
  void end(double us, int together);
  OtherWork summary(int threads) const { return other_work(runs_, threads); }

 private:
  device::cpu::LoadMeter meter_;
  device::cpu::Interruptions before_;
  std::vector<WatchedRun> runs_;
};

}  // namespace smelt::profile
