#include "base/helper_thread.h"

#include <mutex>

namespace smelt::threads {
namespace {

using Clock = std::chrono::steady_clock;

// A helper leaves its caller's core at most so often.
constexpr std::chrono::milliseconds moves_apart{2};

/// Lets the thread run on these processors; `thread` 0 is the calling one. Where the system forbids it, it stays.
void set_processors(pid_t thread, const cpu_set_t& which) { sched_setaffinity(thread, sizeof which, &which); }

cpu_set_t only(size_t processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return set;
}

size_t this_processor() { return static_cast<size_t>(sched_getcpu()); }

}  // namespace

void ask_for_short_slices() {
  constexpr uint64_t slice_ns = 200'000;
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};  // the kernel's sched_attr, in its first version
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = slice_ns;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void WatchedThread::be_this() {
  id = static_cast<pid_t>(syscall(SYS_gettid));
  pthread_getcpuclockid(pthread_self(), &clock_);
}

int64_t WatchedThread::ran_ns() const {
  timespec t{};
  clock_gettime(clock_, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void Helper::bring_here() {
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (!lock || (!is_bound_ && sched_getaffinity(id, sizeof processors, &processors) != 0)) return;
  is_bound_ = true;
  set_processors(id, only(this_processor()));
}

void Helper::go_back() {
  if (!is_bound_.load(std::memory_order_relaxed)) return;
  // A caller that is bringing it has lost the core to it: it goes on once this helper sleeps. The next piece's help() comes here again.
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (!lock) return;
  is_bound_ = false;
  leave_core();
}

void Helper::step_aside() {
  if (Clock::now() - left_core_ >= moves_apart) make_room();
}

void Helper::make_room() {
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (lock && !is_bound_ && sched_getaffinity(0, sizeof processors, &processors) == 0) leave_core();
}

void Helper::leave_core() {
  cpu_set_t others = processors;
  CPU_CLR(this_processor(), &others);
  if (CPU_COUNT(&others) > 0) set_processors(0, others);  // moves it at once
  set_processors(0, processors);
  left_core_ = Clock::now();
}

Caller::~Caller() {
  for (Place p = place_; p == Place::coming || p == Place::gone; p = place_) std::this_thread::yield();  // a helper has it
}

bool Caller::claim() {
  Place own = Place::own;
  return place_.compare_exchange_strong(own, Place::coming, std::memory_order_acq_rel);
}

bool Caller::bring_here() {
  const size_t here = this_processor();
  const bool may = sched_getaffinity(id, sizeof processors, &processors) == 0 && CPU_ISSET(here, &processors);
  if (may) set_processors(id, only(here));
  Place coming = Place::coming;
  if (place_.compare_exchange_strong(coming, may ? Place::brought : Place::own, std::memory_order_acq_rel)) return may;
  if (may) set_processors(id, processors);
  place_.store(Place::own, std::memory_order_release);
  return may;
}

void Caller::stay() {
  Place place = place_.load(std::memory_order_acquire);
  if (place == Place::own || place == Place::gone) return;
  // A helper that is bringing it may have lost the core to it: it sees in time that there is nothing to bring.
  if (place == Place::coming && place_.compare_exchange_strong(place, Place::gone, std::memory_order_acq_rel)) return;
  if (place != Place::brought) return;
  set_processors(0, processors);
  place_.store(Place::own, std::memory_order_release);
}

void Caller::begin_anew() {
  be_this();
  if (place_.exchange(Place::own) != Place::own) set_processors(0, processors);
}

}  // namespace smelt::threads
