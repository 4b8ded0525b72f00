// How many threads the calling thread's parallel regions get.
#pragma once

#include <omp.h>

namespace smelt::run {

/// The team's size for parallel regions that this thread starts, while in scope. OpenMP keeps it per thread, so that
/// concurrent Executions do not see each other's; oneDNN reads it when a primitive is made and again when it runs.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace smelt::run
