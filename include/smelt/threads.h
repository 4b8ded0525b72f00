// The threads that a plan's kernels on the processor run on.
#pragma once

#include <functional>

#include "smelt/export.h"

namespace smelt {

/// Threads of the caller for Options::pool. A run splits its kernels into pieces and asks for help with them; the thread that
/// runs the plan works on them too, and does what no other has begun.
class SMELT_API ThreadPool {
 public:
  virtual ~ThreadPool();
  /// How many tasks can run at the same time. oneDNN's kernels may wait for one another across threads: each of so many tasks must
  /// begin in the end, whatever the others do.
  virtual int threads() const = 0;
  /// Runs the task once on one of the threads, and returns without waiting for it. Thread-safe.
  virtual void schedule(std::function<void()> task) = 0;
};

}  // namespace smelt
