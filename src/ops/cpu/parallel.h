// Splitting a loop over the threads that a kernel was given.
//
// Every parallel region has the whole team, however few of its threads have work: libgomp ends the threads that a smaller team
// leaves out, and starts new ones for the next larger region (its team.c, gomp_team_start).
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace smelt::ops {

/// The team's size for parallel regions that this thread starts, while in scope. OpenMP keeps it per thread, so that concurrent
/// Executions do not see each other's; oneDNN reads it when a primitive is made and again when it runs.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) {
    if (count != before_) omp_set_num_threads(count);
  }
  ~Threads() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  Threads(const Threads&) = delete;

 private:
  int before_;
};

/// How many threads are worth starting for `work` (in operations or bytes, about a nanosecond each for a few of them): starting
/// them costs some microseconds, so each gets at least 2^14.
inline int useful_threads(int threads, int64_t work) {
  return static_cast<int>(std::clamp<int64_t>(work >> 14, 1, std::max(threads, 1)));
}

/// Calls f(begin, end, thread) for contiguous parts of [0, count), one a thread, begins at multiples of `grain`.
template <class F> void parallel(int threads, int64_t count, int64_t grain, F&& f) {
  const int64_t grains = (count + grain - 1) / grain;
  threads = static_cast<int>(std::clamp<int64_t>(grains, 1, std::max(threads, 1)));
  if (threads == 1) {
    if (count > 0) f(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel
  {
    const int64_t t = omp_get_thread_num(), all = std::min(threads, omp_get_num_threads());
    const int64_t begin = grains * t / all * grain, end = std::min(count, grains * (t + 1) / all * grain);
    if (t < all && begin < end) f(begin, end, static_cast<int>(t));
  }
}

/// The same for pieces of uneven cost: f(piece, thread), taken one by one.
template <class F> void parallel_dynamic(int threads, int64_t pieces, F&& f) {
  threads = static_cast<int>(std::clamp<int64_t>(pieces, 1, std::max(threads, 1)));
  if (threads == 1) {
    for (int64_t i = 0; i < pieces; ++i) f(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
#pragma omp parallel
  {
    const int t = omp_get_thread_num();
    if (t < threads) {
      for (int64_t i = next++; i < pieces; i = next++) f(i, t);
    }
  }
}

}  // namespace smelt::ops
