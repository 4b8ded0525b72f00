// The timings of a problem's candidates, and which candidate wins.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/load.h"

namespace smelt::tune {

/// The distribution of a candidate's time on one problem, in microseconds of a run. It has no samples if the candidate was tried
/// and could not be prepared or run.
///
/// `min` is what a run takes: whatever else a machine does only adds to a sample, so that the fastest one is the nearest to what
/// the kernel itself takes (Chen and Revels, Robust benchmarking in noisy environments, 2016). The others say how noisy it was.
struct Timing {
  std::string tactic, config;
  double min = 0, q1 = 0, median = 0, q3 = 0, p90 = 0;
  int samples = 0;
  int under_load = 0;    // how often the candidate was measured, each time with other work on its cores; 0: its time is trusted
  int width = 0;         // threads of the widest region of a run, of a team of several; 0: not known
  int with_threads = 0;  // it was measured with so many threads, another number than that of its entry; 0: with that
  double scaled = 1;     // times what was measured, where it was another number; 1: its steps run alike with both
  bool runs() const { return samples > 0; }
  /// Whether it is what was measured, or says only what may be expected (tune/other_threads.h).
  bool is_sure() const { return scaled == 1; }
  bool operator==(const Timing&) const = default;
};

/// "9.6 µs (9.5 to 9.7)"
std::string spread(const Timing& t);

/// The distribution of samples in microseconds, at least one. Quantiles interpolate linearly between closest ranks.
Timing summarize(std::string tactic, std::string config, std::vector<double> samples);

/// Times closer than this count as equal: two quiet builds measure the fastest of 15 samples up to 2% apart.
constexpr double same_time = 1.03;

/// Of two whose fastest samples are the same, one is slower whose lower quartile is so many times the other's: where much
/// disturbs a trial, a single lucky sample says little.
constexpr double same_quartile = 1.1;

/// The winner among timings in the candidates' fixed order: the first that takes as long as the fastest, by same_time, and of
/// these as the one with the least lower quartile, by same_quartile, so that noise does not decide. What is not sure counts where
/// nothing is sure. Throws if no candidate runs.
size_t winner(std::span<const Timing> timings);

/// What measure() times with. A test makes up its own world.
struct Stopwatch {
  std::function<double()> now_us;
  /// What was taken from the process so far: briefly around each sample, fully around a measurement.
  std::function<device::cpu::Interruptions(bool fully)> interruptions;
  /// Nanoseconds that each thread of the process had a core so far: of the same threads until interruptions(true) is asked again.
  /// May be empty.
  std::function<void(std::vector<int64_t>& ns)> ran = {};
  /// How the calling thread spent its time so far. Given where `ran` is.
  std::function<device::cpu::CallerTime()> caller = {};
  /// Waits until all threads are on their cores; false where they are not after a short while: the sample then counts as
  /// disturbed. May be empty.
  std::function<bool()> gather;
  bool counts_waiting = true;
};

/// The machine's, for kernels on the calling thread's team. One for each thread that measures.
Stopwatch machine_stopwatch();

struct MeasureOptions {
  int repetitions = 15;        // undisturbed samples of a candidate that are enough
  double budget_us = 50'000;   // time that all candidates of a problem may take together, without warm-up, on a quiet machine
  double at_least_us = 5'000;  // of samples, where a round is short: a scheduler's slice should not cover all of them
  double min_sample_us = 20;   // shorter runs are timed several at a time
  double hopeless = 8;         // drops a candidate that certainly takes this many times the best candidate's
  double deadline_us = std::numeric_limits<double>::infinity();  // by the stopwatch: ends there, whatever is missing
};

/// A candidate's samples in microseconds of a run.
struct Samples {
  std::vector<double> us;   // the undisturbed ones, or, where these are fewer than three, all; empty: the deadline came first
  bool under_load = false;  // too few were undisturbed, and the candidate was not dropped before
};

struct Measured {
  std::vector<Samples> samples;  // of each candidate
  bool complete = true;          // false: the deadline came before all samples were taken
  double held_up_us = 0;         // how much longer than alone it took beside other work
};

/// Runs a candidate so many times and returns the microseconds that one run took.
using TimeRuns = std::function<double(size_t candidate, int times)>;

/// Times `count` candidates in turn (A B C A B C …) after a warm-up of each, so that whatever disturbs the machine, and whatever
/// changes its speed, meets all of them.
///
/// Rounds go on until each candidate has its repetitions; those that can no longer win are dropped on the way. Samples during which
/// other work had a core of this process are noticed. From then on such a sample counts as what the busiest thread had a core for,
/// which is what the run takes alone but for its caches, however long it waited; less where a thread was missing whose pieces the
/// busiest did, by how the candidate's threads share the work when they are there; as long as it took but for the calling thread's
/// waiting where the clocks of threads do not account for that thread's time; and never below a quarter of what it took. Three
/// undisturbed ones are enough then, and where even they take longer than all do on a quiet machine, it ends with what there is. Such
/// candidates are marked.
///
/// `before`, where given, is called before every run, untimed: then each run is timed for itself.
Measured measure(size_t count, const TimeRuns& time, const MeasureOptions& options, const Stopwatch& watch,
                 const std::function<void(size_t candidate)>& before = {});

}  // namespace smelt::tune
