// Chooses among a problem's candidates: by estimate, from the cache, or by measuring.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "ops/core/tactic.h"
#include "tune/cache.h"
#include "tune/clocks.h"
#include "tune/filter.h"
#include "tune/other_threads.h"
#include "tune/stages.h"

namespace smelt::tune {

/// Why a candidate was not chosen; `explain` prints it.
struct NotChosen {
  std::string tactic, config, reason;  // "24.1 µs (23.8 to 24.6), slower than 9.6 µs (9.5 to 9.7)"
  std::string code = {};               // of a tactic that cannot run the problem: the refusal's reason code; else ""
  double us = 0;                       // the candidate's fastest run; 0: it was not measured
};

struct Choice {
  size_t candidate = 0;           // index into the offer's candidates
  std::vector<Timing> timings;    // of the candidates that were measured; empty at level 0 and where there is one candidate
  std::vector<NotChosen> others;  // all other candidates, and the offer's rejections
  bool out_of_time = false;       // the time limit came before all candidates were measured: an estimate decided, or a part
  bool pinned = false;            // the plan names it
  int with_threads = 0;  // what decided was measured with so many threads, another number than the tuner's; 0: it was not
  /// On a GPU, of levels 2 and 3: the candidates that a model is to choose among (tune/in_model.h), as indices, by their estimates;
  /// empty where there are less than two.
  std::vector<size_t> finalists = {};
};

/// What a problem is to run with, unmeasured.
using PinnedChoice = ops::ChosenTactic;
using PinnedChoices = std::map<std::string, PinnedChoice>;  // by problem

struct TunerStats {
  int64_t problems = 0, measured = 0, cached = 0;  // distinct problems with a choice, and races; measured now; in the cache
  int64_t under_load = 0, out_of_time = 0;         // of the problems: with timings under load; without all of their timings
  int64_t reused = 0, narrowed = 0;                // decided by timings with another number of threads; some left out by these
  double seconds = 0;                              // spent measuring
  ClocksSeen clocks;
};

/// How long a tuner may measure, and what with. A test makes up the last two.
struct TuningTime {
  double limit_s = 0;                         // of all its measurements; 0: none
  bool keeps_weights = false;                 // from run to run the cores' own caches hold all weights of the model
  std::optional<Stopwatch> watch = {};        // the machine's if not given
  std::function<bool()> cores_are_free = {};  // whether other work wants the team's cores; asks the machine if not given
};

/// What was measured with another number of threads serves (tune/other_threads.h): where the cache has a problem's timings for the same
/// processor and versions but for the threads, or the plan carries them, a race begins with these. What ran on the calling thread alone is
/// taken as it is; a timing with one thread is found to be such by running the candidate once. Of what the team shares only unsettled()
/// candidates are measured. Where nothing is measured, the fastest by what is expected is taken before an estimate: at level 0 by what
/// the plan carries.
///
/// Thread-safe: one thread measures at a time. Candidates for a GPU are timed on it (gpu_trial.h). Levels:
///   0  estimates only: measures nothing and does not read the cache, so that the choice is the same everywhere
///   1  the two candidates with the lowest estimates, briefly
///   2  every candidate whose estimate is at most 10 times the lowest; of these, where kernels are compiled before they are measured, on
///      a GPU, those that a race in stages meets (tune/stages.h)
///   3  every candidate, with more samples
/// What was measured beside other work is marked in the cache. A later tuner that finds the cores free measures it again; beyond three
/// times in its first two seconds only. When its time is up, a tuner takes the fastest of the candidates that it measured, or the one
/// with the lowest estimate; the cache gets no entry then, so that a later one measures the problem.
///
/// Where other work holds a tuner up by more than all of its measurements take alone, and by some seconds beyond, it measures only the
/// likeliest candidates from then on: a build that has a fifth of the cores does not take five times as long. What those timings
/// lack a later tuner measures.
class Tuner {
 public:
  /// `cache` may be Cache::in_memory(). Problems in `pinned` get the candidate that it names, at every level and unmeasured. Where
  /// that is not offered or not allowed, a warning says so and another is chosen as if nothing were pinned. Throws Error (usage)
  /// for a level outside 0 … 3.
  /// `carried`: timings of a plan that was chosen with another number of threads.
  Tuner(ops::Machine machine, int level, TacticFilter filter, std::shared_ptr<Cache> cache, PinnedChoices pinned = {},
        TuningTime time = {}, std::vector<CacheEntry> carried = {});

  /// Chooses for the node's problem; `offer` is ops::offer(node, machine). A problem that would have to be measured gets `similar`,
  /// the choice for a problem of about its sizes, where that is offered and allowed, and where `may_measure` is false otherwise the
  /// lowest estimate. Throws Error (unsupported) when no candidate is
  /// left, with every reason, and Unfit (tune/gpu_trial.h) where timing finds one that cannot run: the caller takes it out.
  Choice choose(const ops::BoundNode& node, const ops::Offer& offer, const std::optional<PinnedChoice>& similar = {},
                bool may_measure = true);
  /// `wanted`, chosen for the problem at other extents, where it is in the offer and allowed; a search through nothing else.
  std::optional<Choice> take(const ops::Offer& offer, const PinnedChoice& wanted);

  /// Microseconds that the candidate which choose() takes for the offer was measured at; measured now where it was not, also when
  /// it is the only one. Its estimate at level 0, and when the time is up.
  double time_us(const ops::BoundNode& node, const ops::Offer& offer);
  /// The lowest estimate of the candidates that are allowed; infinite where there is none.
  double estimate_us(const ops::Offer& offer) const;
  bool measures() const { return level_ > 0; }
  bool has_pinned() const { return !pinned_.empty(); }
  /// What a plan names for the problem.
  std::optional<PinnedChoice> pinned_for(const std::string& problem);
  /// Whether the time limit was reached.
  bool time_is_up() const;
  /// Counts seconds that were spent on preparing measurements towards the time limit.
  void spend(double seconds);

  /// Measures what needed() gives, where that is several: a problem's next stage, or all that it measures. Whether another stage
  /// follows. So a caller that compiles for many problems at once compiles for a stage of all, and then measures that. choose()
  /// measures what is left. Throws as choose() does.
  bool measure_stage(const ops::BoundNode& node, const ops::Offer& offer, const std::optional<PinnedChoice>& similar = {},
                     bool may_measure = true);
  /// From now on no race is in stages: level 2 measures all that it says, for who wants to see them.
  void race_all_at_once();

  /// A way to compute something: these problems one after the other, each with the candidate that choose() takes.
  struct Way {
    struct Part {
      const ops::BoundNode* node;
      const ops::Offer* offer;
      std::vector<int> memory = {};  // of its inputs, then of its outputs: parts share what has one number; -1, or none: its own
    };
    std::string name;
    std::vector<Part> parts;
  };
  /// The times of ways that compute the same, measured in turn on the processor; in the ways' order, named by their `tactic`. The
  /// cache keeps them as the problem `name`. Empty when the time was up before all were taken. Throws Error where a part has no
  /// kernel. It must not be called at level 0.
  std::vector<Timing> race(const std::string& name, std::span<const Way> ways);
  /// What the cache has of such a race, of this level or a higher one: what race() would give without measuring. Empty where it would
  /// measure.
  std::vector<Timing> known_race(const std::string& name, std::span<const std::string> ways);
  /// Keeps for later builds how ways compare that were told apart without a race: by the sums of what time_us() gave of their parts.
  /// Nothing is kept where a part was not measured here.
  void keep_race(const std::string& name, std::span<const Way> ways);

  /// The same by timings with another number of threads, in the order of the ways' names, where these tell which is the fastest; empty
  /// where they do not, and where there are others.
  std::vector<Timing> race_elsewhere(const std::string& name, std::span<const std::string> ways);
  /// Whether a plan carries timings with another number of threads, or the cache has some of this processor.
  bool knows_other_threads();
  /// What the problem's fastest candidate takes, by what was measured, with whichever number of threads; nothing where nothing was.
  std::optional<Bounds> expected(const ops::Offer& offer);
  /// The timings that decided so far, for a plan's file: for this machine.
  std::vector<CacheEntry> decisive() const;

  /// Timings of ways to do `name`, named by their `tactic` and in their order, that are made elsewhere: what the cache keeps of this
  /// level or a higher one, or what `measure` gives, which the cache keeps then. Empty where it gives none, and when the time is up.
  std::vector<Timing> timings_of(const std::string& name, const std::vector<std::string>& ways,
                                 const std::function<std::vector<Timing>()>& measure);

  /// The candidates that choose() would run next for this offer: those that it would measure, of a race in stages the next stage's, or,
  /// if it would measure none, the one that it would choose.
  std::vector<size_t> needed(const ops::Offer& offer, const std::optional<PinnedChoice>& similar = {}, bool may_measure = true);

  /// Notes a candidate that cannot be prepared or run here. choose() ignores it from now on, and the cache keeps it with the
  /// problem's timings, so that no later process tries it again with these versions.
  void leave_out(const std::string& problem, const ops::Candidate& candidate);

  const ops::Machine& machine() const { return machine_; }
  bool allows(std::string_view tactic) const { return filter_.allows(tactic); }
  TunerStats stats() const;

 private:
  CacheKey key(const std::string& problem) const;
  std::vector<Timing>& left_out(const std::string& problem);
  /// The same for a problem that is not measured: nothing is kept of it that the cache does not list.
  const std::vector<Timing>& left_out_unmeasured(const std::string& problem);
  /// Whether the cache had an entry of the problem, for this machine, when it was first asked.
  bool is_listed(const std::string& problem);
  std::vector<size_t> allowed(const ops::Offer& offer, bool may_measure);
  /// Of the allowed ones, the one that is pinned for the problem.
  std::optional<size_t> pinned(const ops::Offer& offer, const std::vector<size_t>& allowed) const;
  /// Of the allowed ones, that one.
  static std::optional<size_t> position(const ops::Offer& offer, const std::vector<size_t>& allowed, const PinnedChoice& wanted);
  bool in_stages() const { return level_ == 2 && machine_.gpu && !all_at_once_; }
  /// Of the candidates worth measuring those that are still to be measured, of a race in stages in the next one; none where the
  /// timings of a level decide.
  std::vector<size_t> missing(const CacheEntry& entry, const ops::Offer& offer, const std::vector<size_t>& worth) const;
  /// Whether it has timings with another number of threads.
  static bool is_borrowed(const CacheEntry& entry) {
    return std::ranges::any_of(entry.timings, [](const Timing& t) { return t.with_threads > 0; });
  }
  /// A problem's race, as far as it is: what is measured next, if anything, and what is known of it by then.
  struct Race {
    std::vector<size_t> next;  // beside those that could be measured before it
    CacheEntry known;
    bool from_cache = false;   // what is known
    bool from_others = false;  // it begins with timings with another number of threads
    bool decided() const { return next.empty(); }
  };
  Race race_of(const ops::Offer& offer, const std::vector<size_t>& worth, bool may_measure);
  /// Measures what is next, and notes it in known_; once the race is decided, in the cache.
  void measure_next(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& worth, const Race& race);
  bool others_are_known();
  /// What other numbers of threads say of the problem: looked up once.
  const std::optional<CacheEntry>& elsewhere(const std::string& problem);
  /// The timings of the ways where all were taken with one thread, and it is not known who had it alone.
  std::vector<Timing> of_one_thread(const std::string& name, std::span<const std::string> ways);
  /// A race's name in the cache: what a filter leaves to race is another thing.
  std::string race_name(const std::string& name) const {
    return filter_.text().empty() ? name : name + " by --tactics=" + filter_.text();
  }
  /// What the cache has of a race by that name, in the ways' order, where nothing is to be measured again.
  std::vector<Timing> cached_race(const std::string& name, std::span<const std::string> ways);
  /// What time_us() went by, where that was measured.
  std::optional<Timing> timing_known(const ops::Offer& offer, size_t candidate);
  /// The fastest of these by what is known of it, though it may not be sure; nothing where nothing is known.
  std::optional<Choice> likely(const ops::Offer& offer, const std::vector<size_t>& allowed,
                               std::span<const Timing> timings) const;
  /// Runs those once whose timings are with one thread, and notes which ran alone; true where some did.
  bool find_alone(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& which, CacheEntry& entry);
  /// Whether there is something to measure: with one candidate only where others failed, which the cache then notes.
  bool is_raced(const ops::Offer& offer, const std::vector<size_t>& worth) {
    return worth.size() > 1 || !left_out(offer.problem).empty();
  }
  /// The timings, where a library's kernel counts what smelt's own hide: these begin before the one before them has ended
  /// (device/cuda/early_kernels.h), which no measurement of one kernel by itself shows.
  std::vector<Timing> as_in_plans(std::vector<Timing> timings) const;
  /// winner() of these.
  size_t winner_of(std::vector<Timing> timings) const { return winner(as_in_plans(std::move(timings))); }
  /// Whether the cache's timings of the candidates are to be replaced: some are under load, and the cores are free.
  bool measured_anew(const CacheEntry& entry, const ops::Offer& offer, const std::vector<size_t>& wanted);
  bool cores_are_free();
  bool cold_weights() const { return !time_.keeps_weights; }
  bool up() const { return time_.limit_s > 0 && spent_s_ >= time_.limit_s; }
  std::vector<size_t> worth_measuring(const ops::Offer& offer, const std::vector<size_t>& allowed) const;
  double time_of_chosen(const ops::BoundNode& node, const ops::Offer& offer);
  Stopwatch watch() const;
  MeasureOptions measure_options(double begin_us) const;
  void count_measurement(double us, double held_up_us);
  /// A width that was seen, where it tells something: of a team of one it does not.
  int known_width(int seen) const;
  struct Taken {
    std::vector<Timing> timings;
    bool complete;  // false: the time was up before all were taken
  };
  Taken measure_now(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& which);
  /// With what cannot run.
  void add_left_out(CacheEntry& entry);

  ops::Machine machine_;
  int level_;
  TacticFilter filter_;
  std::shared_ptr<Cache> cache_;
  PinnedChoices pinned_;
  mutable std::mutex mutex_;
  std::map<std::string, CacheEntry> known_, races_;
  std::map<std::string, CacheEntry> carried_;
  std::map<std::string, std::optional<CacheEntry>> elsewhere_;
  std::optional<bool> others_are_known_;
  std::set<std::string> reused_;                         // decided by other numbers of threads, and not among the known
  std::set<std::string> undecided_, out_of_time_;        // of the known problems: not in the cache; chosen without all timings
  std::map<std::string, std::vector<Timing>> left_out_;  // by problem; without samples
  bool all_at_once_ = false;
  std::optional<std::unordered_set<std::string>> listed_;
  TunerStats stats_;
  TuningTime time_;
  double spent_s_ = 0;           // of the time limit
  double held_up_s_ = 0;         // of the seconds spent measuring, those that other work took
  bool only_likeliest_ = false;  // are measured: it was held up for too long
  struct Verdict {
    bool free;
    std::chrono::steady_clock::time_point until;
  };
  std::optional<Verdict> cores_;
  std::optional<ClockWatch> clocks_;  // of the GPU that candidates are timed on
};

/// "AMD EPYC 7B13, avx2, 2 threads", "NVIDIA H100 80GB HBM3, sm_90a": the cache key's device.
std::string device_text(const ops::Machine& machine);

}  // namespace smelt::tune
