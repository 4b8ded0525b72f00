// What other work on the machine takes from this process: cores that its threads wait for, time that a hypervisor gives to other
// guests, and quotas that are used up.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace smelt::device::cpu {

/// Totals since some moment of the past: differences say what happened between two readings. What the kernel does not say stays 0.
struct Interruptions {
  int64_t waited_ns = 0;     // that threads of this process were ready to run and had no core (schedstat)
  int64_t preempted = 0;     // times that one of them lost its core (involuntary context switches)
  int64_t stolen_ns = 0;     // of this process's cores, that the hypervisor gave to others (/proc/stat, by ticks of 10 ms)
  int64_t throttled_ns = 0;  // that the process stood still because its control groups' quota was used up (cpu.stat)
  Interruptions operator-(const Interruptions& before) const;
};

/// Totals of one thread. What is neither of the two it slept; where it never did, its clock stood still for as long: a virtual
/// machine holds back the clocks of threads while it makes up for stolen time.
struct CallerTime {
  int64_t ran_ns = 0;     // it had a core
  int64_t waited_ns = 0;  // it was ready to run and had none
  int64_t slept = 0;      // times that it gave its core back (voluntary context switches)
};

/// Reads them of this process, or of files that a test wrote. Not thread-safe.
class LoadMeter {
 public:
  /// `proc`: where procfs is mounted; `groups`: where the control groups are.
  explicit LoadMeter(std::filesystem::path proc = "/proc", const std::filesystem::path& groups = "/sys/fs/cgroup");
  ~LoadMeter();
  LoadMeter(const LoadMeter&) = delete;

  /// Looks for threads that were started since. Takes some 10 µs a thread.
  void find_threads();
  /// waited_ns of the threads that find_threads() saw, and preempted: about 1 µs a thread.
  Interruptions brief() const;
  /// All of them: some 100 µs.
  Interruptions full() const;
  /// Nanoseconds that each of those threads had a core so far, to this moment; a call of the kernel for each.
  void ran(std::vector<int64_t>& ns) const;
  /// How the calling thread, one that find_threads() saw, spent its time so far. Some 2 µs.
  CallerTime caller() const;
  /// False where the kernel does not count how long threads wait.
  bool counts_waiting() const { return !threads_.empty(); }

 private:
  std::filesystem::path proc_;
  struct Thread {
    std::string number;
    int schedstat;    // the open file
    clockid_t clock;  // of its time on cores
  };
  std::vector<std::filesystem::path> quota_files_;  // cpu.stat of each control group that holds the process
  std::vector<Thread> threads_;
};

/// Whether `taken` from a span of `elapsed_us` is more than a quiet machine's own housekeeping takes: more than 100 µs and 5% of
/// the span of waiting, stolen or throttled time. A thread's waiting is counted when it ends, which may be after a short span: any
/// preemption disturbs one below 1 ms, and every span where waiting is not counted.
bool disturbed(const Interruptions& taken, double elapsed_us, bool counts_waiting = true);

/// Spins on all threads of the calling thread's team for so long: whether nobody else wanted their cores meanwhile.
bool cores_are_free(LoadMeter& meter, double milliseconds = 30);

/// Returns when every thread of the calling thread's team runs at the same moment, or after `milliseconds`: then false. What is
/// timed next begins with all of its threads on their cores.
bool gather_team(double milliseconds);

}  // namespace smelt::device::cpu
