// Times a problem's candidates on the GPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/core/tactic.h"
#include "smelt/error.h"
#include "tune/timing.h"

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

/// Times the candidates in `which` by measure(), each in a CUDA graph, as plans run them: what comes from the problem's constants is
/// cold, for twice the L2 cache's size is written before every run, and computed inputs that fit half of it are warm. A sample is the
/// time between two events around the graph, less that of a graph without the candidate. It is disturbed where the host's thread lost
/// its core. `while_busy`, where given, is called once while the GPU works. Inputs as in Trial. Throws Unfit.
Measured measure_on_gpu(const ops::BoundNode& node, const ops::Offer& offer, std::span<const size_t> which,
                        const ops::Machine& machine, const MeasureOptions& options, Stopwatch watch,
                        std::function<void()> while_busy);

}  // namespace smelt::tune
