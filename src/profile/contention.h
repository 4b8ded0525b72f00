// Several models on the same cores: how much each slows the others down, what of, and what was to be expected of each alone.
#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"
#include "profile/stats.h"

namespace smelt::profile {

struct ServeOptions {
  double seconds = 3;
  double rate = 0;  // requests a second, evenly spaced; 0: one as soon as the one before is done
};

/// What came of requests to a model for a while.
struct Served {
  std::vector<double> response_us;  // from a request's arrival to its answer
  std::vector<double> service_us;   // from the beginning of its run
  std::vector<double> step_us;      // the mean of each step
  double seconds = 0;               // that all took
  double cpu_us = 0;                // of processor time, of all threads of the process
  double waited_us = 0;             // that its threads were ready and had no core
  Summary response() const { return summarize(response_us); }
  double per_s() const { return seconds > 0 ? static_cast<double>(response_us.size()) / seconds : 0; }
};

/// Serves an execution whose inputs are bound. Requests that come while one is served wait in turn.
Served serve(Execution& execution, const ServeOptions& options);

/// One model, served alone.
struct Alone {
  Served served;
  std::vector<StepInfo> steps;
  std::vector<Limiter> limiters;  // by step; may be empty
  double bytes() const;           // that a run must move
  double busy_cores() const;      // used while it runs, on average
};

/// Of one model: what it lost to the others, in microseconds of a request.
struct SlowDown {
  double alone_us = 0, together_us = 0;  // mean response
  double cores_us = 0;                   // its threads had no core
  double memory_us = 0;                  // they had one, and took longer: bandwidth, caches, a core's shared halves
  double queueing_us = 0;                // requests waited for those before them
  double ratio() const { return alone_us > 0 ? together_us / alone_us : 0; }
};
struct StepSlowDown {
  double alone_us = 0, together_us = 0, cores_us = 0, memory_us = 0;
};

SlowDown slow_down(const Served& alone, const Served& together);
/// Shares out what the run lost: cores by the time that each step takes alone, for they are lost at any time alike; the rest of what a step
/// takes longer is memory's.
std::vector<StepSlowDown> step_slow_downs(const Served& alone, const Served& together);

/// The slow-down of each that is to be expected of what each does alone: cores are shared in proportion to what each wants of them, as is
/// memory's bandwidth (`bytes_per_s`; 0: not known), while the others are busy.
std::vector<double> predicted_slow_downs(const std::vector<Alone>& models, int cores, double bytes_per_s, double rate);

}  // namespace smelt::profile
