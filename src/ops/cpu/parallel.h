// Splitting a loop over the threads that a kernel was given (base/threads.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/threads.h"

namespace smelt::ops {

/// The team for parallel regions that this thread starts, while in scope. It is the thread's own, so that concurrent Executions do
/// not see each other's; oneDNN reads it when a primitive is made and again when it runs.
using Threads = threads::Scope;

/// How many threads are worth starting for `work` (in operations or bytes, about a nanosecond each for a few of them): starting
/// them costs some microseconds, so each gets at least 2^14.
inline int useful_threads(int threads, int64_t work) {
  return static_cast<int>(std::clamp<int64_t>(work >> 14, 1, std::max(threads, 1)));
}

/// Calls f(begin, end, thread) for contiguous parts of [0, count), some for each thread, begins at multiples of `grain`. No two
/// calls that run at the same time have the same `thread`.
template <class F> void parallel(int threads, int64_t count, int64_t grain, F&& f) {
  // A thread that a neighbour keeps from its core holds up the others by no more than one of its parts.
  constexpr int64_t parts_each = 4;
  const int64_t grains = (count + grain - 1) / grain;
  threads = static_cast<int>(std::clamp<int64_t>(grains, 1, std::max(threads, 1)));
  if (threads == 1) {
    if (count > 0) f(int64_t{0}, count, 0);
    return;
  }
  const int64_t parts = std::min(grains, threads * parts_each);
  const auto piece = [&](int64_t i, int thread) {
    f(grains * i / parts * grain, std::min(count, grains * (i + 1) / parts * grain), thread);
  };
  using Piece = decltype(piece);
  threads::run(
      threads, parts, [](void* data, int64_t i, int thread) { (*static_cast<Piece*>(data))(i, thread); },
      const_cast<void*>(static_cast<const void*>(&piece)));
}

/// The same for pieces of uneven cost: f(piece, thread), taken one by one.
template <class F> void parallel_dynamic(int threads, int64_t pieces, F&& f) {
  threads = static_cast<int>(std::clamp<int64_t>(pieces, 1, std::max(threads, 1)));
  if (threads == 1) {
    for (int64_t i = 0; i < pieces; ++i) f(i, 0);
    return;
  }
  using Piece = std::remove_reference_t<F>;
  threads::run(
      threads, pieces, [](void* data, int64_t i, int thread) { (*static_cast<Piece*>(data))(i, thread); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace smelt::ops
