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

/// A thread that works on regions, as others see it: whether it has a core.
class WatchedThread {
 public:
  WatchedThread() { be_this(); }
  WatchedThread(const WatchedThread&) = delete;

  /// Notes its processor time; stands_still() says whether that has not changed since.
  void look() { seen_ns_.store(ran_ns(), std::memory_order_relaxed); }
  bool stands_still() const { return ran_ns() == seen_ns_.load(std::memory_order_relaxed); }

 protected:
  /// Is the calling thread from now on.
  void be_this();

  pid_t id = 0;
  cpu_set_t processors = {};  // that it may run on; known while it is moved

 private:
  int64_t ran_ns() const;

  clockid_t clock_ = 0;
  std::atomic<int64_t> seen_ns_ = 0;
};

/// A thread of the process's pool. A caller moves one that lost its core in the midst of a piece to its own, and sleeps: the region
/// ends when the piece does, not when the neighbour's time slice does.
class Helper : public WatchedThread {
 public:
  Helper* before = nullptr;                     // in the pool's list
  std::atomic<const Region*> region = nullptr;  // that it has pieces of

  bool is_brought() const { return is_bound_.load(std::memory_order_relaxed); }

  /// To the calling thread's processor, and no other until the helper leaves it. It may have ended its piece meanwhile.
  void bring_here();

  /// Called by the helper itself: off the core of the caller that brought it there.
  void go_back();

  /// Called by the helper itself, on its caller's core: two threads on one core do no more than one.
  void step_aside();

  /// Called by the helper itself: leaves its core to the caller that it has brought there.
  void make_room();

 private:
  void leave_core();

  SpinLock moving_;
  std::atomic<bool> is_bound_ = false;  // to a caller's processor
  std::chrono::steady_clock::time_point left_core_ = {};
};

/// A thread while it has a region open. A helper that finds nothing to do moves one that lost its core in the midst of a piece to
/// its own.
class Caller : public WatchedThread {
 public:
  ~Caller();

  /// True where the calling helper may bring it, and no other until it has: bring_here() follows, even when the region has ended.
  bool claim();
  /// To the calling thread's processor, and no other until it stays there. False where it may not run there.
  bool bring_here();

  /// Called by the thread itself, as its region ends: it may run where it might before.
  void stay();

  /// The thread of a process that fork made; whoever was bringing it is not there.
  void begin_anew();

 private:
  enum class Place { own, coming, brought, gone };  // gone: its region ended before it was brought
  std::atomic<Place> place_{Place::own};
};

}  // namespace smelt::threads
