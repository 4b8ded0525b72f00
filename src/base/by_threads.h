// Runs independent pieces of work on threads of its own, beside the kernels' team of threads (ops/cpu/parallel.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace smelt {

/// Calls f(0) … f(count - 1), by up to so many threads, the calling one among them; returns when all are done. f must not throw.
template <class F> void by_threads(int threads, size_t count, F&& f) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) f(i);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < std::min(threads, static_cast<int>(count)); ++t) others.emplace_back(work);
  work();
}

}  // namespace smelt
