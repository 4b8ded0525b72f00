#include "tune/tuner.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"
#include "tune/in_model.h"

namespace smelt::tune {
namespace {

/// What a kernel of a library's costs more in a plan on Hopper than by itself, against smelt's own, which begin early: without them
/// bert_base, which had 12, took 8 us less, and vit_b_16 23 us (bench/results/gpu-models-2026-11-27.txt).
constexpr double hidden_us = 0.75;

constexpr size_t likeliest = 3;  // candidates of a problem that are measured where other work takes too much

std::string threads_text(int n) { return fmt::format("{} thread{}", n, n == 1 ? "" : "s"); }

std::string why_not(const Timing& loser, const Timing& chosen) {
  if (!loser.is_sure())
    return fmt::format("{:.1f} µs expected by its time with {}, slower than {}", loser.min, threads_text(loser.with_threads),
                       spread(chosen));
  if (chosen.min > same_time * loser.min)
    return fmt::format("{}, {}; of the two only the second begins early, which counts {} µs", spread(loser), spread(chosen),
                       hidden_us);
  if (loser.min > same_time * chosen.min) return fmt::format("{}, slower than {}", spread(loser), spread(chosen));
  if (loser.q1 > same_quartile * chosen.q1) return fmt::format("{}, most often slower than {}", spread(loser), spread(chosen));
  return fmt::format("{}, within noise of {}, which the cost model puts first", spread(loser), spread(chosen));
}

}  // namespace

std::string device_text(const ops::Machine& machine) {
  if (machine.gpu) return fmt::format("{}, {}", machine.gpu->info.name, machine.gpu->info.arch);
  return fmt::format("{}, {}, {} thread{}", machine.cpu, machine.isa, machine.threads, machine.threads == 1 ? "" : "s");
}

Tuner::Tuner(ops::Machine machine, int level, TacticFilter filter, std::shared_ptr<Cache> cache, PinnedChoices pinned,
             TuningTime time, std::vector<CacheEntry> carried)
    : machine_(std::move(machine)),
      level_(level),
      filter_(std::move(filter)),
      cache_(std::move(cache)),
      pinned_(std::move(pinned)),
      time_(std::move(time)) {
  if (!(time_.limit_s >= 0)) fail_usage("a time limit of {} s for tuning is less than none (0)", time_.limit_s);
  if (level < 0 || level > 3) fail_usage("tuning level {} is not one of 0 (estimates), 1, 2, 3 (exhaustive)", level);
  if (machine_.gpu && machine_.gpu->device)
    clocks_.emplace([uuid = machine_.gpu->info.uuid] { return device::cuda::read_state(uuid); });
  const auto here = team_device(key({}).device);
  for (CacheEntry& e : carried) {
    const auto there = team_device(e.key.device);
    if (!here || !there || there->processor != here->processor || there->threads == here->threads ||
        e.key.versions != machine_.versions)
      continue;
    std::string problem = e.key.problem;
    carried_.insert_or_assign(std::move(problem), std::move(e));
  }
}

// Where the caches keep a model's weights, other candidates win than where they come from memory.
CacheKey Tuner::key(const std::string& problem) const {
  return {problem, device_text(machine_) + (cold_weights() ? "" : ", weights in caches"), machine_.versions};
}

std::vector<size_t> Tuner::worth_measuring(const ops::Offer& offer, const std::vector<size_t>& allowed) const {
  std::vector<size_t> order = allowed;
  const auto estimate = [&](size_t i) { return offer.candidates[i].estimate_us; };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return estimate(a) < estimate(b); });
  // What a plan was not measured with, at its level, is left out with another number of threads, too.
  if (const auto at = carried_.find(offer.problem); at != carried_.end() && !all_at_once_) {
    const auto is_known = [&](size_t i) { return timing_of(at->second.timings, offer.candidates[i]) != nullptr; };
    if (std::ranges::any_of(order, is_known)) {
      std::erase_if(order, std::not_fn(is_known));
      return order;
    }
  }
  const auto lengthy = [&](size_t i) { return offer.candidates[i].lengthy; };
  if (level_ < 3 && !std::ranges::all_of(order, lengthy)) std::erase_if(order, lengthy);
  // The plain loops win a race only where a kernel's samples were interrupted.
  if (level_ < 3 && !order.empty() && offer.candidates[order.front()].tactic != "reference")
    std::erase_if(order, [&](size_t i) { return offer.candidates[i].tactic == "reference"; });
  if (level_ == 1 && order.size() > 2) order.resize(2);
  if (level_ == 2) {
    const double limit = 10 * estimate(order[0]);
    std::erase_if(order, [&](size_t i) { return estimate(i) > limit; });
  }
  if (only_likeliest_ && order.size() > likeliest) order.resize(likeliest);
  return order;
}

std::vector<Timing>& Tuner::left_out(const std::string& problem) {
  const auto [at, first] = left_out_.try_emplace(problem);
  if (first && level_ > 0) {
    if (const auto cached = cache_->find(key(problem)))
      std::ranges::copy_if(cached->timings, std::back_inserter(at->second), [](const Timing& t) { return !t.runs(); });
  }
  return at->second;
}

bool Tuner::is_listed(const std::string& problem) {
  if (level_ == 0) return false;
  if (!listed_) listed_ = cache_->problems(key({}).device, machine_.versions);
  return listed_->contains(problem);
}

const std::vector<Timing>& Tuner::left_out_unmeasured(const std::string& problem) {
  static const std::vector<Timing> none;
  if (const auto at = left_out_.find(problem); at != left_out_.end()) return at->second;
  return is_listed(problem) ? left_out(problem) : none;
}

void Tuner::leave_out(const std::string& problem, const ops::Candidate& candidate) {
  std::lock_guard lock(mutex_);
  std::vector<Timing>& out = left_out(problem);
  if (timing_of(out, candidate)) return;
  out.push_back({candidate.tactic, candidate.config});
  // Before a measurement there is no entry to keep it in; measure_now adds it.
  const auto known = known_.find(problem);
  if (known == known_.end() || known->second.timings.empty() || undecided_.contains(problem)) return;
  std::erase_if(known->second.timings,
                [&](const Timing& t) { return t.tactic == candidate.tactic && t.config == candidate.config; });
  known->second.timings.push_back(out.back());
  if (std::ranges::any_of(known->second.timings, &Timing::runs)) cache_->keep(known->second);
}

std::vector<size_t> Tuner::allowed(const ops::Offer& offer, bool may_measure) {
  const std::vector<Timing>& out = may_measure ? left_out(offer.problem) : left_out_unmeasured(offer.problem);
  std::vector<size_t> allowed;
  for (size_t i = 0; i < offer.candidates.size(); ++i)
    if (filter_.allows(offer.candidates[i].tactic) && !timing_of(out, offer.candidates[i])) allowed.push_back(i);
  return allowed;
}

std::optional<size_t> Tuner::pinned(const ops::Offer& offer, const std::vector<size_t>& allowed) const {
  const auto at = pinned_.find(offer.problem);
  return at == pinned_.end() ? std::nullopt : position(offer, allowed, at->second);
}

std::optional<size_t> Tuner::position(const ops::Offer& offer, const std::vector<size_t>& allowed, const PinnedChoice& wanted) {
  const auto same = std::ranges::find_if(allowed, [&](size_t i) {
    return PinnedChoice{offer.candidates[i].tactic, offer.candidates[i].config} == wanted;
  });
  return same == allowed.end() ? std::nullopt : std::optional(*same);
}

std::vector<Timing> Tuner::as_in_plans(std::vector<Timing> timings) const {
  if (machine_.gpu && machine_.gpu->info.major >= 9 && filter_.allows(ops::early_launch))
    for (Timing& t : timings)
      if (is_of_library(t.tactic)) t.min += hidden_us, t.q1 += hidden_us;
  return timings;
}

std::vector<size_t> Tuner::missing(const CacheEntry& entry, const ops::Offer& offer, const std::vector<size_t>& worth) const {
  if (entry.level < level_) return worth;
  if (in_stages()) return next_stage(offer, worth, as_in_plans(entry.timings));
  if (is_borrowed(entry)) return unsettled(entry.timings, offer, worth);
  const bool all = std::ranges::all_of(worth, [&](size_t i) { return timing_of(entry.timings, offer.candidates[i]); });
  return all ? std::vector<size_t>() : worth;
}

Tuner::Race Tuner::race_of(const ops::Offer& offer, const std::vector<size_t>& worth, bool may_measure) {
  Race race{{}, {key(offer.problem), level_, {}}};
  const auto known = known_.find(offer.problem);
  if (known != known_.end()) race.known = known->second;
  race.next = missing(race.known, offer, worth);
  const bool runs = in_stages() && !race.known.timings.empty();  // the cache has nothing newer
  if (!race.decided() && !runs && (may_measure || is_listed(offer.problem))) {
    if (const auto cached = cache_->find(key(offer.problem)); cached && cached->level >= level_) {
      if (measured_anew(*cached, offer, worth)) {
        race.next = worth;
        if (in_stages()) std::erase_if(race.next, [&](size_t i) { return !timing_of(cached->timings, offer.candidates[i]); });
        return race;
      }
      const std::vector<size_t> next = missing(*cached, offer, worth);
      if (next.empty() || in_stages()) race = {next, *cached, true};
    }
  }
  if (race.decided()) return race;
  if (race.known.timings.empty() && !in_stages()) {
    if (const auto& others = elsewhere(offer.problem)) race = {missing(*others, offer, worth), *others, true};
    race.from_others = is_borrowed(race.known);
    if (race.decided()) return race;
  }
  if (!in_stages() && !is_borrowed(race.known))
    race.known.timings.clear();  // all are measured in turn
  else if (!in_stages())
    return race;  // what is sure already is not
  else
    for (const size_t i : contenders(offer, worth, as_in_plans(race.known.timings))) race.next.push_back(i);
  return race;
}

std::vector<size_t> Tuner::needed(const ops::Offer& offer, const std::optional<PinnedChoice>& similar, bool may_measure) {
  std::lock_guard lock(mutex_);
  const std::vector<size_t> candidates = allowed(offer, may_measure);
  if (candidates.empty()) return {};
  if (const auto chosen = pinned(offer, candidates)) return {*chosen};
  const std::vector<size_t> wanted = worth_measuring(offer, candidates);
  if (level_ == 0 || wanted.size() == 1) return {wanted.front()};
  const Race race = race_of(offer, wanted, may_measure);
  if (!race.decided()) {
    if (const auto like = similar ? position(offer, candidates, *similar) : std::nullopt) return {*like};
    if (!may_measure) return {wanted.front()};
    if (!up()) return race.next;
  }
  std::vector<Timing> timings;
  std::vector<size_t> timed;
  for (size_t i : wanted) {
    const Timing* t = timing_of(race.known.timings, offer.candidates[i]);
    if (t && t->runs()) timings.push_back(*t), timed.push_back(i);
  }
  return {timed.empty() ? wanted.front() : timed[winner_of(std::move(timings))]};
}

bool Tuner::measure_stage(const ops::BoundNode& node, const ops::Offer& offer, const std::optional<PinnedChoice>& similar,
                          bool may_measure) {
  check_stop();
  std::lock_guard lock(mutex_);
  const std::vector<size_t> candidates = allowed(offer, may_measure);
  if (level_ == 0 || !may_measure || candidates.empty() || pinned(offer, candidates)) return false;
  const std::vector<size_t> wanted = worth_measuring(offer, candidates);
  const Race race = race_of(offer, wanted, may_measure);
  if (wanted.size() == 1 || race.decided() || up() || (similar && position(offer, candidates, *similar))) return false;
  measure_next(node, offer, wanted, race);
  return !up() && undecided_.contains(offer.problem);
}

void Tuner::race_all_at_once() {
  std::lock_guard lock(mutex_);
  all_at_once_ = true;
  elsewhere_.clear();
}

std::optional<Choice> Tuner::take(const ops::Offer& offer, const PinnedChoice& wanted) {
  std::lock_guard lock(mutex_);
  const auto at = position(offer, allowed(offer, false), wanted);
  if (!at) return std::nullopt;
  const auto pin = pinned_.find(offer.problem);
  if (pin != pinned_.end() && pin->second != wanted) return std::nullopt;
  return Choice{.candidate = *at, .timings = {}, .others = {}, .pinned = pin != pinned_.end()};
}

std::optional<PinnedChoice> Tuner::pinned_for(const std::string& problem) {
  std::lock_guard lock(mutex_);
  const auto at = pinned_.find(problem);
  return at == pinned_.end() ? std::nullopt : std::optional(at->second);
}

Choice Tuner::choose(const ops::BoundNode& node, const ops::Offer& offer, const std::optional<PinnedChoice>& similar,
                     bool may_measure) {
  check_stop();
  std::lock_guard lock(mutex_);
  Choice choice;
  for (const ops::RefusedTactic& r : offer.refused)
    choice.others.push_back({r.tactic, "", r.why.text, std::string(name(r.why.reason))});
  const std::vector<size_t> allowed = this->allowed(offer, may_measure);
  const std::vector<Timing>& failed = left_out_unmeasured(offer.problem);
  for (const auto& c : offer.candidates) {
    if (!filter_.allows(c.tactic))
      choice.others.push_back({c.tactic, c.config, fmt::format("refused by --tactics={}", filter_.text())});
    else if (timing_of(failed, c))
      choice.others.push_back({c.tactic, c.config, "failed when it was tried with these versions"});
  }
  if (allowed.empty()) {
    std::string reasons;
    for (const auto& o : choice.others) reasons += fmt::format("\n  {}: {}", o.tactic, o.reason);
    const auto& refused = offer.candidates;  // all of them, or there were none
    throw Error(fmt::format("no tactic runs {}{}", offer.problem, reasons),
                refused.empty() ? std::string()
                                : fmt::format("Allow one of the refused ones, as in --tactics={},+{}", filter_.text(),
                                              refused.front().tactic),
                ExitCode::unsupported);
  }

  if (const auto chosen = pinned(offer, allowed)) {
    choice.candidate = *chosen;
    choice.pinned = true;
    for (size_t i : allowed)
      if (i != *chosen)
        choice.others.push_back({offer.candidates[i].tactic, offer.candidates[i].config, "the plan names the chosen one"});
    return choice;
  }
  if (const auto other = pinned_.extract(offer.problem))
    warn("{}: the plan's {} {} cannot run here; another kernel is chosen", offer.problem, other.mapped().tactic,
         other.mapped().config);

  if (level_ == 0 && allowed.size() > 1) {
    if (const auto& others = elsewhere(offer.problem)) {
      if (auto like = likely(offer, allowed, others->timings)) {
        std::ranges::move(choice.others, std::back_inserter(like->others));
        reused_.insert(offer.problem);
        return *std::move(like);
      }
    }
  }
  const auto by_estimate = std::ranges::min_element(allowed, {}, [&](size_t i) { return offer.candidates[i].estimate_us; });
  choice.candidate = *by_estimate;
  if (level_ == 0 || allowed.size() == 1) {
    const double chosen_us = offer.candidates[choice.candidate].estimate_us;
    for (size_t i : allowed) {
      const auto& c = offer.candidates[i];
      if (i != choice.candidate) {
        choice.others.push_back(
            {c.tactic, c.config, fmt::format("estimated at {:.1f} µs, the chosen one at {:.1f} µs", c.estimate_us, chosen_us)});
      }
    }
    return choice;
  }

  const std::vector<size_t> wanted = worth_measuring(offer, allowed);
  auto known = known_.find(offer.problem);
  if (known == known_.end() || (!missing(known->second, offer, wanted).empty() && !up())) {
    Race race = race_of(offer, wanted, may_measure);
    if (const auto like = race.decided() || !similar ? std::nullopt : position(offer, allowed, *similar)) {
      choice.candidate = *like;
      for (size_t i : allowed)
        if (i != *like)
          choice.others.push_back({offer.candidates[i].tactic, offer.candidates[i].config,
                                   "the chosen one was the fastest at sizes of the same bucket"});
      return choice;
    }
    if (!race.decided() && !may_measure) {
      if (auto like = is_borrowed(race.known) ? likely(offer, allowed, race.known.timings) : std::nullopt) {
        std::ranges::move(choice.others, std::back_inserter(like->others));
        reused_.insert(offer.problem);
        return *std::move(like);
      }
      for (size_t i : allowed)
        if (i != choice.candidate)
          choice.others.push_back(
              {offer.candidates[i].tactic, offer.candidates[i].config,
               fmt::format("estimated at {:.1f} µs, the chosen one at {:.1f} µs: shapes that a run meets are not "
                           "measured",
                           offer.candidates[i].estimate_us, offer.candidates[choice.candidate].estimate_us)});
      return choice;
    }
    const bool is_cached = race.decided() && race.from_cache;
    if (is_cached && !race.from_others) ++stats_.cached;
    const bool raced = is_raced(offer, wanted);
    for (; raced && !race.decided() && !up(); race = race_of(offer, wanted, may_measure)) measure_next(node, offer, wanted, race);
    known = known_.find(offer.problem);
    if (known == known_.end() || is_cached) ++stats_.problems;
    if (known == known_.end() || race.decided()) known = known_.insert_or_assign(offer.problem, std::move(race.known)).first;
  }
  choice.out_of_time = wanted.size() > 1 && !missing(known->second, offer, wanted).empty();
  if (choice.out_of_time) out_of_time_.insert(offer.problem);

  // The timings of the candidates that are allowed now, ordered by estimate: the cost model decides between equal timings.
  std::vector<size_t> timed, by_cost = allowed;
  std::ranges::stable_sort(by_cost, {}, [&](size_t i) { return offer.candidates[i].estimate_us; });
  for (size_t i : by_cost) {
    if (const Timing* t = timing_of(known->second.timings, offer.candidates[i])) {
      choice.timings.push_back(*t);
      timed.push_back(i);
    }
  }
  if (!timed.empty()) choice.candidate = timed[winner_of(choice.timings)];
  if (machine_.gpu && level_ >= 2 && !choice.out_of_time) {
    const std::vector<Timing> timings = as_in_plans(choice.timings);
    for (const size_t i : finalists(timings)) choice.finalists.push_back(timed[i]);
    // Unless a model decides the order does, but a library's kernel has to win.
    if (const size_t first = first_alone(timings); !choice.finalists.empty() && !is_of_library(timings[first].tactic))
      choice.candidate = timed[first];
  }
  const Timing* chosen = timing_of(choice.timings, offer.candidates[choice.candidate]);
  if (chosen) choice.with_threads = chosen->with_threads;
  for (size_t i : allowed) {
    const auto& c = offer.candidates[i];
    if (i == choice.candidate) continue;
    const Timing* t = timing_of(choice.timings, c);
    choice.others.push_back(
        {c.tactic, c.config,
         t && chosen          ? why_not(*t, *chosen)
         : choice.out_of_time ? fmt::format("estimated at {:.1f} µs: the time for measuring was up", c.estimate_us)
         : only_likeliest_    ? fmt::format("estimated at {:.1f} µs: other work took too much time to measure it", c.estimate_us)
                              : fmt::format("estimated at {:.1f} µs: not measured at level {}", c.estimate_us, level_),
         "", t && t->is_sure() ? t->min : 0});
  }
  return choice;
}

double Tuner::estimate_us(const ops::Offer& offer) const {
  double least = std::numeric_limits<double>::infinity();
  for (const ops::Candidate& c : offer.candidates)
    if (allows(c.tactic)) least = std::min(least, c.estimate_us);
  return least;
}

}  // namespace smelt::tune
