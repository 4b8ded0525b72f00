// A problem's candidates timed on the GPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "smelt/error.h"

namespace smelt::tune {

/// A candidate that cannot be prepared, or fails when it first runs.
struct Unfit : Error {
  Unfit(const Error& why, size_t at, bool again) : Error(why), candidate(at), would_again(again) {}
  size_t candidate;  // its place among the offer's
  bool would_again;  // in another process too
};

/// Within the catch block of `e`, which a candidate threw: whether it would throw it in another process too. Not where memory was
/// short. Throws `e` on where no other candidate would do better: a missing compiler, a device whose work is lost.
bool would_fail_again(const Error& e);

struct GpuMeasureOptions {
  int repetitions = 12;                   // samples a candidate, at most
  double budget_us = 60'000;              // time all candidates of a problem may take together
  double hopeless = 4;                    // a candidate whose first run takes this many times the best one's is dropped
  std::function<void()> while_busy = {};  // called once, while the GPU works
};

/// Microseconds a run, of each candidate in `which`, A B C A B C … after a first run each. Before every run twice the L2 cache's
/// size is written, so that nothing of the problem is in it; a sample is the time between two events on the stream, less what two
/// events take with nothing between them. Inputs as in Trial. Throws Unfit.
std::vector<std::vector<double>> measure_on_gpu(const ops::BoundNode& node, const ops::Offer& offer,
                                                std::span<const size_t> which, const ops::Machine& machine,
                                                const GpuMeasureOptions& options);

}  // namespace smelt::tune
