// Whether B is faster than A, and by how much: runs in turn in one process give a ratio with its interval.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profile/stats.h"
#include "smelt/session.h"

namespace smelt::profile {

struct Sample {
  double start_ms = 0, end_ms = 0;  // from the first timed run's start
};

struct Side {
  std::string name;  // "unfused", "optimised", a file's name
  Summary ms;        // latency
  std::vector<double> samples_ms;
  std::vector<Sample> trace;  // for --exportTimes
  double build_s = 0;         // seconds to build the plan: import, rewriting, tuning, packing
  BuildInfo build;
  int64_t host_bytes = 0, device_bytes = 0;  // the plan's weights and arena, where they lie
  void memory_of_plan(const MemoryInfo& m, bool on_gpu) {
    (on_gpu ? device_bytes : host_bytes) = m.weights + m.arena;
    if (on_gpu) host_bytes = m.on_host;
  }
};

struct BenchResult {
  Side before, after;
  Ratio ratio;  // after / before, below 1 is faster
  double speedup() const { return 1 / ratio.value; }
};

/// Runs of a sample, issued without a wait between them: on a GPU as many as hide the time of a launch.
inline int runs_per_sample(const Execution& e) { return e.on_gpu() ? 20 : 1; }

/// Runs of two executions of a GPU's plan by the host's clock, in turn: bound to inputs in the host's memory, and on the GPU. Of
/// short runs there are many, over a second; at least one round of each, and at most so many seconds.
struct CopiedRuns {
  static constexpr size_t in_round = 5;  // runs of each side, one after the other
  std::vector<double> host_us, there_us;
  /// Microseconds by which a run on the GPU is shorter: the median of what rounds say, as both sides of a round meet the machine
  /// alike; a round says it by the fastest run of either side, as other work makes runs longer and never shorter.
  double saved_us() const;
};
CopiedRuns time_copied_runs(Execution& host, Execution& there, double max_seconds);

struct BenchOptions {
  int iterations = 10;                   // of each side, at least
  double warmup_ms = 200;                // of each side, at least one run
  double duration_s = 3;                 // timing goes on until iterations and duration are both reached
  std::function<void(double)> progress;  // told how much of the timing is done, from 0 to 1; may be empty
};

/// Makes a side's execution, with its inputs bound and memory of its own.
using MakeExecution = std::function<std::shared_ptr<Execution>()>;

/// Times two sides in turn: A B B A A B …. The order within a pair alternates, so that neither side always runs on the other's
/// caches. Short runs are timed in up to ten rounds, each with new executions, made while the last round's still exist: the place
/// of memory makes some percent of a short run and is no property of a plan.
BenchResult bench(const MakeExecution& before, const MakeExecution& after, const BenchOptions& options);

}  // namespace smelt::profile
