// Splitting a loop over the threads that a kernel was given.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace smelt::ops {

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
#pragma omp parallel num_threads(threads)
  {
    const int64_t t = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = grains * t / all * grain, end = std::min(count, grains * (t + 1) / all * grain);
    if (begin < end) f(begin, end, static_cast<int>(t));
  }
}

/// The same for pieces of uneven cost: f(piece, thread), taken one by one.
template <class F> void parallel_dynamic(int threads, int64_t pieces, F&& f) {
  threads = static_cast<int>(std::clamp<int64_t>(pieces, 1, std::max(threads, 1)));
  if (threads == 1) {
    for (int64_t i = 0; i < pieces; ++i) f(i, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (int64_t i = 0; i < pieces; ++i) f(i, omp_get_thread_num());
}

}  // namespace smelt::ops
