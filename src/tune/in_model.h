// The last round of a race on a GPU: what a problem's best candidates take in the model itself, after and before the steps that run there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tune/timing.h"

namespace smelt::tune {

/// What a candidate that is timed alone may take longer than the fastest, and be a finalist. Kernels of 2 us differ from build to build
/// by a tenth, and in a model by 0.2 us either way (bench/results/gpu-rebuilds-2026-11-28.txt): the margin is wide, so that one at
/// its edge, which another build may not have, is hardly ever the one to be chosen.
constexpr double finalist_within = 1.3, finalist_beyond_us = 0.5;
constexpr size_t most_finalists = 8;
/// Where no model decides, what takes so much longer than the fastest counts as fast.
constexpr double alone_equal_us = 0.3;

/// The timings, as indices in their order, of those that a model is to choose among: the first in order of all that are near the
/// fastest, whichever that is, first_alone() among them; none where they are less than two.
std::vector<size_t> finalists(std::span<const Timing> timings);

/// Which of the timings is chosen where no model decides: the first in order that takes as long as the fastest, by same_time and
/// alone_equal_us.
size_t first_alone(std::span<const Timing> timings);

/// A problem's candidates of which the model is to choose, in a fixed order: each place further back has a price.
struct Finalists {
  size_t count = 1;
  double us = 0;  // of all steps of the problem in a run, by what they took alone
};

/// Which of its finalists each problem runs, in a trial of the model.
using Lineup = std::vector<size_t>;
/// Microseconds of a run of the model with each of these, measured in turn; empty where the time for it is up.
using TimeLineups = std::function<std::vector<double>(std::span<const Lineup>)>;

struct FinalOptions {
  size_t batch = 16;  // trials that are measured in turn
  /// What a place further back in the order must gain: this part of the problem's time, or of a problem's mean share of the model.
  double place = 0.01;
  double sure = 3;  // standard errors
  size_t most_trials = 4096;
};

struct Final {
  std::vector<size_t> chosen;           // by problem
  std::vector<std::vector<double>> us;  // by problem and finalist: how much longer than with the fastest of them a run takes
  std::vector<double> error_us;         // by problem: standard error of such a difference
  size_t trials = 0, undecided = 0;     // problems of which the time was up before they were sure
  bool enough = false;                  // trials to say anything; else the first of each is chosen
};

/// Measures the model with lineups in which every problem has a finalist by chance, each about as often, so that each trial says
/// something of all problems: a finalist's time is what remains once the least squares of all others are taken off. To it comes the
/// price of its place in the order, and the least sum is chosen: so equal ones are told apart by the order, the same in every build,
/// and two sums are seldom so close that noise decides. Finalists that are surely above the least leave; a problem is decided where
/// one is left. It ends when all are decided, or when the time is up.
Final race_in_model(std::span<const Finalists> problems, const TimeLineups& time, const FinalOptions& options = {});

/// The problems, as indices, whose finalists so many trials can tell apart, those that take longest first.
std::vector<size_t> worth_trials(std::span<const Finalists> problems, size_t trials);

}  // namespace smelt::tune
