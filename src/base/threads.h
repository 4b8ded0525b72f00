// The threads that kernels share: a pool of helpers for the process, or the caller's (smelt/threads.h).
//
// A region is a loop over pieces. The thread that starts it works on them too, and takes every piece that no helper has begun:
// a helper that a neighbour keeps from its core delays a region by the piece it holds, never by pieces it has not begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "smelt/threads.h"

namespace smelt::threads {

/// Processors that this process may use, at least 1: those of its affinity mask, and no more than its control groups' quotas pay
/// for, rounded up (cpu.max; cpu.cfs_quota_us of version 1).
int usable_cores();
/// What the quotas of a process pay for, INT_MAX where there are none. `groups`: the text of /proc/self/cgroup; `root`: where the
/// control groups are mounted.
int quota_cores(const std::string& groups, const std::filesystem::path& root);

class Pool;
class Caller;

/// What regions that this thread starts run on.
struct Team {
  int threads = 0;               // at most, the starting one among them; 0: usable_cores()
  std::shared_ptr<Pool> pool{};  // empty: the process's
  bool spin = true;              // false: threads that wait sleep at once
};
Team& team();
/// The threads of a region that this thread starts: 1 inside of another region.
int team_threads();

/// Computes a piece. `thread`, below the region's threads, is that of no other piece running at the same time. It must not throw.
using Task = void (*)(void* data, int64_t piece, int thread);

/// The thread's number for regions that it starts, while in scope; their pool and whether they spin stay, or are those of `team`.
class Scope {
 public:
  explicit Scope(int threads);
  explicit Scope(Team team);
  ~Scope();
  Scope(const Scope&) = delete;

 private:
  Team before_;
};

/// Called with the number of threads whenever a thread's changes: another library's way to set it. At most one.
void set_follower(void (*follower)(int threads));

/// A loop that helpers may join between open() and close(); it must not be moved meanwhile.
class Region {
 public:
  /// `threads` of them share the pieces: each has a contiguous part, which it does in order before it takes others'.
  Region(Task task, void* data, int64_t pieces, int threads);
  Region(const Region&) = delete;

  /// Offers the region to helpers. `with_caller`: false if the caller begins its own first piece itself.
  void open(bool with_caller = true);
  /// Works on what is left as thread 0, and waits for the pieces that helpers have begun.
  void close();

 private:
  friend class Pool;
  friend struct Parts;
  struct alignas(64) Part {
    std::atomic<int64_t> next;
    int64_t end;
    bool taken;  // by a thread; under the pool's lock
  };
  void work(int thread) noexcept;
  void leave();

  Task task_;
  void* data_;
  int threads_;
  bool spin_;
  int free_ = 0;              // threads that may still join; under the pool's lock
  Caller* caller_ = nullptr;  // where the pool has helpers of its own
  Region *before_ = nullptr, *after_ = nullptr;
  std::shared_ptr<Pool> pool_;
  Part* parts_;
  alignas(64) std::atomic<uint32_t> inside_{0};  // helpers at work; the highest bit: the caller sleeps until there are none
};

/// Calls task(data, piece, thread) for each piece of [0, pieces), and returns when all are done. Inside of a region the pieces
/// run one by one.
void run(int threads, int64_t pieces, Task task, void* data);

/// True on a thread that works on a region's piece.
bool in_region();

/// A pool whose helpers are tasks of the caller's threads, which the caller keeps.
std::shared_ptr<Pool> pool_on(const std::shared_ptr<ThreadPool>& threads);

}  // namespace smelt::threads
