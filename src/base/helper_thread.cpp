#include "base/helper_thread.h"

#include <mutex>

namespace smelt::threads {
namespace {

using Clock = std::chrono::steady_clock;

// A helper leaves its caller's core at most so often.
constexpr std::chrono::milliseconds moves_apart{2};

/// Lets the thread run on these processors; `thread` 0 is the calling one. Where the system forbids it, it stays.
void set_processors(pid_t thread, const cpu_set_t& which) { sched_setaffinity(thread, sizeof which, &which); }

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

void Helper::bring_here() {
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (!lock || (!is_bound_ && sched_getaffinity(id_, sizeof processors_, &processors_) != 0)) return;
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
  is_bound_ = true;
  set_processors(id_, here);
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
  if (Clock::now() - left_core_ < moves_apart) return;
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (lock && !is_bound_ && sched_getaffinity(0, sizeof processors_, &processors_) == 0) leave_core();
}

int64_t Helper::ran_ns() const {
  timespec t{};
  clock_gettime(clock_, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void Helper::leave_core() {
  cpu_set_t others = processors_;
  CPU_CLR(static_cast<size_t>(sched_getcpu()), &others);
  if (CPU_COUNT(&others) > 0) set_processors(0, others);  // moves it at once
  set_processors(0, processors_);
  left_core_ = Clock::now();
}

}  // namespace smelt::threads
