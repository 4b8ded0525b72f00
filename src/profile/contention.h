// Several models on the same cores: how much each slows the others down, what of, and what was to be expected of each alone.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"
#include "profile/stats.h"

namespace smelt::profile {

struct ServeOptions {
  double seconds = 3;
  double rate = 0;  // requests a second, evenly spaced; 0: one as soon as the one before is done
  /// What a request runs in place of the execution; may be empty. Steps have no times then.
  std::function<void()> run;
};

/// One request on the machine's clock (CLOCK_MONOTONIC), which all processes share.
struct ServedRun {
  int64_t arrival_ns = 0, begin_ns = 0, end_ns = 0;
  std::vector<StepTime> steps;  // from begin_ns
};

/// What came of requests to a model for a while.
struct Served {
  std::vector<double> response_us;  // from a request's arrival to its answer
  std::vector<double> service_us;   // from the beginning of its run
  std::vector<double> step_us;      // the mean of each step
  double seconds = 0;               // that all took
  double cpu_us = 0;                // of processor time, of all threads of the process
  double waited_us = 0;             // that its threads were ready and had no core
  std::vector<ServedRun> last;      // the last requests: those of some 4,000 steps
  Summary response() const { return summarize(response_us); }
  double per_s() const { return seconds > 0 ? static_cast<double>(response_us.size()) / seconds : 0; }
};

/// Serves an execution whose inputs are bound. Requests that come while one is served wait in turn. On a GPU the steps' times are
/// those of one run more, at the end: seeing each of them would make every run longer.
Served serve(Execution& execution, const ServeOptions& options);

/// One model, served alone.
struct Alone {
  Served served;
  std::vector<StepInfo> steps;
  std::vector<Limiter> limiters;  // by step; may be empty
  double beside_busy = 0;         // its runs' slow-down while another process's steps keep each core busy; 0: not measured
  double beside_reads = 0;        // beside a thread on each core that reads memory as fast as it can; 0: not measured
  double read_bytes_per_s = 0;    // what these threads read meanwhile
  double bytes() const;           // that a run must move
  double busy_cores() const;      // wanted while it runs, on average: used, or waited for where others had them
};

/// Of one model: what it lost to the others, in microseconds of a request.
struct SlowDown {
  double alone_us = 0, together_us = 0;  // mean response
  double cores_us = 0;                   // its threads had no core; on a GPU: its kernels shared the multiprocessors
  double memory_us = 0;                  // they had one, and took longer: bandwidth, caches, a core's shared halves
  double l2_us = 0, copies_us = 0;       // on a GPU: its L2, and copies and fills; memory_us is memory's bandwidth alone there
  double queueing_us = 0;                // requests waited for those before them; on a GPU kernels too, before they began
  double ratio() const { return alone_us > 0 ? together_us / alone_us : 0; }
};
struct StepSlowDown {
  double alone_us = 0, together_us = 0, cores_us = 0, memory_us = 0;
  double l2_us = 0, copies_us = 0, queueing_us = 0;  // on a GPU
};

/// Several stretches of time as one: the last requests are those of the last.
Served joined(std::vector<Served> parts);

SlowDown slow_down(const Served& alone, const Served& together);
/// Shares out what the run lost: cores by the time that each step takes alone, for they are lost at any time alike; the rest of
/// what a step takes longer is memory's.
std::vector<StepSlowDown> step_slow_downs(const Served& alone, const Served& together);

/// The last stretch of time in which the requests kept of every model lie, and of it at most `most_ns`: begin and end. Both 0
/// where one has none.
std::pair<int64_t, int64_t> common_window(const std::vector<Served>& together, int64_t most_ns);

/// The slow-down of each that is to be expected of what each does alone, while the others are busy: that while another process's
/// steps keep each core busy, in proportion to the cores that the others want beyond what is there; where it was not measured,
/// what follows from sharing cores in proportion to what each wants. Who takes turns on a core finds its caches full of what the
/// others moved: of what a model loses more beside steps that read memory than beside busy ones it loses as much as the others
/// move of what those read. Memory's bandwidth is shared likewise (`bytes_per_s`; 0: not known). The idea: Mars et al.,
/// Bubble-Up, 2011.
std::vector<double> predicted_slow_downs(const std::vector<Alone>& models, int cores, double bytes_per_s, double rate);

}  // namespace smelt::profile
