// A helper thread of the process's pool, and the core that it runs on.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "base/waiting.h"

namespace smelt::threads {

class Region;

/// Asks the scheduler for short slices, and so to run soon after each wake-up instead of after a neighbour's slice (Linux 6.12
/// and later; others ignore it). The thread's share stays. The threads of a region then have their cores at the same time.
void ask_for_short_slices();

/// A thread of the process's pool, as callers see it. A caller moves one that lost its core in the midst of a piece to its own,
/// and sleeps: the region ends when the piece does, not when the neighbour's time slice does.
class Helper {
 public:
  /// Of the calling thread.
  Helper() { pthread_getcpuclockid(pthread_self(), &clock_); }
  Helper(const Helper&) = delete;

  Helper* before = nullptr;                     // in the pool's list
  std::atomic<const Region*> region = nullptr;  // that it has pieces of

  /// Notes its processor time; stands_still() says whether that has not changed since.
  void look() { seen_ns_.store(ran_ns(), std::memory_order_relaxed); }
  bool stands_still() const { return ran_ns() == seen_ns_.load(std::memory_order_relaxed); }

  bool is_brought() const { return is_bound_.load(std::memory_order_relaxed); }

  /// To the calling thread's processor, and no other until the helper leaves it. It may have ended its piece meanwhile.
  void bring_here();

  /// Called by the helper itself: off the core of the caller that brought it there.
  void go_back();

  /// Called by the helper itself, on its caller's core: two threads on one core do no more than one.
  void step_aside();

 private:
  int64_t ran_ns() const;
  void leave_core();

  const pid_t id_ = static_cast<pid_t>(syscall(SYS_gettid));
  clockid_t clock_ = 0;
  std::atomic<int64_t> seen_ns_ = 0;
  SpinLock moving_;
  cpu_set_t processors_ = {};           // that it may run on; known while it is bound
  std::atomic<bool> is_bound_ = false;  // to a caller's processor
  std::chrono::steady_clock::time_point left_core_ = {};
};

}  // namespace smelt::threads
