// Times a problem's candidates on the GPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "smelt/error.h"

namespace smelt::tune {

/// Thrown for a candidate that cannot be prepared, or that fails when it first runs.
struct Unfit : Error {
  Unfit(const Error& why, size_t at, bool again) : Error(why), candidate(at), would_again(again) {}
  size_t candidate;  // index among the offer's candidates
  bool would_again;  // it would fail in another process too
};

/// For the catch block of an error `e` that a candidate threw: whether the candidate would throw it in another process too, which
/// it would not if memory was short. Rethrows `e` if no other candidate can do better: no compiler, a device whose work is lost.
bool would_fail_again(const Error& e);

struct GpuMeasureOptions {
  int repetitions = 12;                   // samples of a candidate, at most
  double budget_us = 60'000;              // time that all candidates of a problem may take together
  double hopeless = 4;                    // drops a candidate whose first run takes this many times the best candidate's
  std::function<void()> while_busy = {};  // called once, while the GPU works
};

/// Microseconds of a run of each candidate in `which`, in turn (A B C A B C …) after a first run of each. Before every run it
/// writes twice the L2 cache's size, so that the cache holds nothing of the problem. A sample is the time between two events on
/// the stream, less the time between two events with nothing between them. Inputs as in Trial. Throws Unfit.
std::vector<std::vector<double>> measure_on_gpu(const ops::BoundNode& node, const ops::Offer& offer,
                                                std::span<const size_t> which, const ops::Machine& machine,
                                                const GpuMeasureOptions& options);

}  // namespace smelt::tune
