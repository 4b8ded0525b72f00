#include "tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <list>

#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "ops/cuda/gpu.h"
#include "tune/gpu_trial.h"
#include "tune/trial.h"

namespace smelt::tune {
namespace {

MeasureOptions options_of(int level) {
  switch (level) {
    case 1: return {.repetitions = 5, .budget_us = 20'000, .at_least_us = 2'000, .hopeless = 3};
    case 3: return {.repetitions = 60, .budget_us = 1'000'000, .at_least_us = 20'000, .hopeless = 30};
    default: return {.repetitions = 15, .budget_us = 100'000, .hopeless = 5};
  }
}

MeasureOptions gpu_options_of(int level) {
  switch (level) {
    case 1: return {.repetitions = 5, .budget_us = 10'000, .at_least_us = 0, .min_sample_us = 0, .hopeless = 3};
    case 3: return {.repetitions = 40, .budget_us = 500'000, .at_least_us = 0, .min_sample_us = 0, .hopeless = 20};
    default: return {.repetitions = 12, .budget_us = 60'000, .at_least_us = 0, .min_sample_us = 0, .hopeless = 4};
  }
}

constexpr int most_under_load = 3;  // measurements of a candidate beside other work, after which it is left at that

const Timing* find(const std::vector<Timing>& timings, const ops::Candidate& c) {
  const auto at = std::ranges::find_if(timings, [&](const Timing& t) { return t.tactic == c.tactic && t.config == c.config; });
  return at == timings.end() ? nullptr : &*at;
}

std::string spread(const Timing& t) {
  return fmt::format("{:.1f} µs ({:.1f} to {:.1f}){}", t.min, t.q1, t.q3, t.under_load > 0 ? " under load" : "");
}

std::string why_not(const Timing& loser, const Timing& chosen) {
  if (loser.min > same_time * chosen.min) return fmt::format("{}, slower than {}", spread(loser), spread(chosen));
  return fmt::format("{}, within noise of {}, which the cost model puts first", spread(loser), spread(chosen));
}

}  // namespace

std::string device_text(const ops::Machine& machine) {
  if (machine.gpu) return fmt::format("{}, {}", machine.gpu->info.name, machine.gpu->info.arch);
  return fmt::format("{}, {}, {} thread{}", machine.cpu, machine.isa, machine.threads, machine.threads == 1 ? "" : "s");
}

Tuner::Tuner(ops::Machine machine, int level, TacticFilter filter, std::shared_ptr<Cache> cache, PinnedChoices pinned,
             TuningTime time)
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
}

CacheKey Tuner::key(const std::string& problem) const { return {problem, device_text(machine_), machine_.versions}; }

std::vector<size_t> Tuner::worth_measuring(const ops::Offer& offer, const std::vector<size_t>& allowed) const {
  std::vector<size_t> order = allowed;
  const auto estimate = [&](size_t i) { return offer.candidates[i].estimate_us; };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return estimate(a) < estimate(b); });
  const auto lengthy = [&](size_t i) { return offer.candidates[i].lengthy; };
  if (level_ < 3 && !std::ranges::all_of(order, lengthy)) std::erase_if(order, lengthy);
  if (level_ == 1 && order.size() > 2) order.resize(2);
  if (level_ == 2) {
    const double limit = 10 * estimate(order[0]);
    std::erase_if(order, [&](size_t i) { return estimate(i) > limit; });
  }
  return order;
}

Stopwatch Tuner::watch() const {
  // The machine's has files open for each thread of the process, so that it is not kept.
  return time_.watch ? *time_.watch : machine_stopwatch();
}

MeasureOptions Tuner::measure_options(double begin_us) const {
  MeasureOptions options = machine_.gpu ? gpu_options_of(level_) : options_of(level_);
  if (time_.limit_s > 0) options.deadline_us = begin_us + 1e6 * (time_.limit_s - spent_s_);
  return options;
}

void Tuner::count_measurement(double us) {
  ++stats_.measured;
  stats_.seconds += 1e-6 * us;
  spent_s_ += 1e-6 * us;
}

CacheEntry Tuner::measure_now(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& which) {
  const Stopwatch watch = this->watch();
  const double begin = watch.now_us();
  const MeasureOptions options = measure_options(begin);
  Measured measured;
  if (machine_.gpu) {
    std::function<void()> look;
    if (clocks_) look = [&] { clocks_->look(); };
    measured = measure_on_gpu(node, offer, which, machine_, options, watch, look);
  } else {
    Trial trial(node, machine_);
    std::vector<std::function<void()>> runs;
    for (size_t i : which) {
      try {
        runs.push_back(trial.runner(offer.candidates[i].tactic, offer.candidates[i].config));
      } catch (const Error& e) {  // oneDNN has descriptors that it generates no code for
        throw Unfit(e, i, true);
      }
    }
    measured = measure(runs, options, watch);
  }
  std::vector<std::pair<size_t, Timing>> by_order;
  for (size_t i = 0; i < which.size(); ++i) {
    Samples& s = measured.samples[i];
    if (s.us.empty()) continue;
    const auto& c = offer.candidates[which[i]];
    by_order.emplace_back(which[i], summarize(c.tactic, c.config, std::move(s.us)));
    by_order.back().second.under_load = s.under_load && measured.complete;
  }
  std::ranges::sort(by_order, {}, &std::pair<size_t, Timing>::first);
  CacheEntry entry{key(offer.problem), level_, {}};
  for (auto& [i, t] : by_order) entry.timings.push_back(std::move(t));
  for (const Timing& t : left_out(offer.problem)) entry.timings.push_back(t);
  count_measurement(watch.now_us() - begin);
  const Timing& best = entry.timings[winner(entry.timings)];
  info("measured {}: {} takes {}", offer.problem, best.tactic, spread(best));
  if (!measured.complete) {
    spent_s_ = std::max(spent_s_, time_.limit_s);
    return entry;
  }
  return cache_->keep(std::move(entry));
}

bool Tuner::cores_are_free() {
  const auto now = std::chrono::steady_clock::now();
  if (!cores_ || now > cores_->until) {
    bool free = false;
    if (time_.cores_are_free) {
      free = time_.cores_are_free();
    } else {
      device::cpu::LoadMeter meter;
      free = device::cpu::cores_are_free(meter);
    }
    cores_ = {free, now + std::chrono::seconds(1)};
  }
  return cores_->free;
}

bool Tuner::measured_anew(const CacheEntry& entry, const ops::Offer& offer, const std::vector<size_t>& wanted) {
  const bool marked = std::ranges::any_of(wanted, [&](size_t i) {
    const Timing* t = find(entry.timings, offer.candidates[i]);
    return t && t->under_load > 0 && t->under_load < most_under_load;
  });
  return marked && !up() && cores_are_free();
}

bool Tuner::time_is_up() const {
  std::lock_guard lock(mutex_);
  return up();
}

void Tuner::spend(double seconds) {
  std::lock_guard lock(mutex_);
  spent_s_ += seconds;
}

std::vector<Timing>& Tuner::left_out(const std::string& problem) {
  const auto [at, first] = left_out_.try_emplace(problem);
  if (first && level_ > 0) {
    if (const auto cached = cache_->find(key(problem)))
      std::ranges::copy_if(cached->timings, std::back_inserter(at->second), [](const Timing& t) { return !t.runs(); });
  }
  return at->second;
}

void Tuner::leave_out(const std::string& problem, const ops::Candidate& candidate) {
  std::lock_guard lock(mutex_);
  std::vector<Timing>& out = left_out(problem);
  if (find(out, candidate)) return;
  out.push_back({candidate.tactic, candidate.config});
  // Before a measurement there is no entry to keep it in; measure_now adds it.
  const auto known = known_.find(problem);
  if (known == known_.end() || known->second.timings.empty()) return;
  std::erase_if(known->second.timings,
                [&](const Timing& t) { return t.tactic == candidate.tactic && t.config == candidate.config; });
  known->second.timings.push_back(out.back());
  if (std::ranges::any_of(known->second.timings, &Timing::runs)) cache_->keep(known->second);
}

std::vector<size_t> Tuner::allowed(const ops::Offer& offer) {
  const std::vector<Timing>& out = left_out(offer.problem);
  std::vector<size_t> allowed;
  for (size_t i = 0; i < offer.candidates.size(); ++i)
    if (filter_.allows(offer.candidates[i].tactic) && !find(out, offer.candidates[i])) allowed.push_back(i);
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

bool Tuner::covers(const CacheEntry& entry, const ops::Offer& offer, const std::vector<size_t>& wanted) const {
  return entry.level >= level_ && std::ranges::all_of(wanted, [&](size_t i) { return find(entry.timings, offer.candidates[i]); });
}

std::optional<CacheEntry> Tuner::look_up(const ops::Offer& offer, const std::vector<size_t>& wanted) {
  if (const auto known = known_.find(offer.problem); known != known_.end() && covers(known->second, offer, wanted))
    return known->second;
  auto cached = cache_->find(key(offer.problem));
  if (cached && (!covers(*cached, offer, wanted) || measured_anew(*cached, offer, wanted))) cached.reset();
  return cached;
}

std::vector<size_t> Tuner::needed(const ops::Offer& offer, const std::optional<PinnedChoice>& similar, bool may_measure) {
  std::lock_guard lock(mutex_);
  const std::vector<size_t> candidates = allowed(offer);
  if (candidates.empty()) return {};
  if (const auto chosen = pinned(offer, candidates)) return {*chosen};
  std::vector<size_t> wanted = worth_measuring(offer, candidates);
  if (level_ == 0 || wanted.size() == 1) return {wanted.front()};
  const auto cached = look_up(offer, wanted);
  if (const auto like = cached || !similar ? std::nullopt : position(offer, candidates, *similar)) return {*like};
  if (!cached && (up() || !may_measure)) return {wanted.front()};
  if (!cached) return wanted;
  std::vector<Timing> timings;
  for (size_t i : wanted) timings.push_back(*find(cached->timings, offer.candidates[i]));
  return {wanted[winner(timings)]};
}

std::optional<Choice> Tuner::take(const ops::Offer& offer, const PinnedChoice& wanted) {
  std::lock_guard lock(mutex_);
  const auto at = position(offer, allowed(offer), wanted);
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
  const std::vector<size_t> allowed = this->allowed(offer);
  for (const auto& c : offer.candidates) {
    if (!filter_.allows(c.tactic))
      choice.others.push_back({c.tactic, c.config, fmt::format("refused by --tactics={}", filter_.text())});
    else if (find(left_out(offer.problem), c))
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
  if (known == known_.end() || (!covers(known->second, offer, wanted) && !up())) {
    auto cached = look_up(offer, wanted);
    if (const auto like = cached || !similar ? std::nullopt : position(offer, allowed, *similar)) {
      choice.candidate = *like;
      for (size_t i : allowed)
        if (i != *like)
          choice.others.push_back({offer.candidates[i].tactic, offer.candidates[i].config,
                                   "the chosen one was the fastest at sizes of the same bucket"});
      return choice;
    }
    if (!cached && !may_measure && wanted.size() > 1) {
      for (size_t i : allowed)
        if (i != choice.candidate)
          choice.others.push_back(
              {offer.candidates[i].tactic, offer.candidates[i].config,
               fmt::format("estimated at {:.1f} µs, the chosen one at {:.1f} µs: shapes that a run meets are not "
                           "measured",
                           offer.candidates[i].estimate_us, offer.candidates[choice.candidate].estimate_us)});
      return choice;
    }
    ++stats_.problems;
    if (cached)
      ++stats_.cached;
    else if ((wanted.size() > 1 || !left_out(offer.problem).empty()) && !up())
      cached = measure_now(node, offer, wanted);
    if (!cached) cached = CacheEntry{key(offer.problem), level_, {}};
    known = known_.insert_or_assign(offer.problem, std::move(*cached)).first;
    if (known->second.under_load()) ++stats_.under_load;
    if (wanted.size() > 1 && !covers(known->second, offer, wanted)) ++stats_.out_of_time;
  }
  choice.out_of_time = wanted.size() > 1 && !covers(known->second, offer, wanted);

  // The timings of the candidates that are allowed now, ordered by estimate: the cost model decides between equal timings.
  std::vector<size_t> timed, by_cost = allowed;
  std::ranges::stable_sort(by_cost, {}, [&](size_t i) { return offer.candidates[i].estimate_us; });
  for (size_t i : by_cost) {
    if (const Timing* t = find(known->second.timings, offer.candidates[i])) {
      choice.timings.push_back(*t);
      timed.push_back(i);
    }
  }
  if (!timed.empty()) choice.candidate = timed[winner(choice.timings)];
  const Timing* chosen = find(choice.timings, offer.candidates[choice.candidate]);
  for (size_t i : allowed) {
    const auto& c = offer.candidates[i];
    if (i == choice.candidate) continue;
    const Timing* t = find(choice.timings, c);
    choice.others.push_back({c.tactic, c.config,
                             t && chosen ? why_not(*t, *chosen)
                             : choice.out_of_time
                                 ? fmt::format("estimated at {:.1f} µs: the time for measuring was up", c.estimate_us)
                                 : fmt::format("estimated at {:.1f} µs: not measured at level {}", c.estimate_us, level_)});
  }
  return choice;
}

double Tuner::time_us(const ops::BoundNode& node, const ops::Offer& offer) {
  for (;;) {
    try {
      return time_of_chosen(node, offer);
    } catch (const Unfit& e) {  // the next best, until choose() finds none
      leave_out(offer.problem, offer.candidates[e.candidate]);
    }
  }
}

double Tuner::time_of_chosen(const ops::BoundNode& node, const ops::Offer& offer) {
  const Choice choice = choose(node, offer);
  const ops::Candidate& chosen = offer.candidates[choice.candidate];
  if (const Timing* t = find(choice.timings, chosen)) return t->min;
  const std::lock_guard lock(mutex_);
  if (level_ == 0 || up()) return chosen.estimate_us;
  const std::vector<size_t> only(1, choice.candidate);
  auto entry = look_up(offer, only);
  ++stats_.problems;
  if (entry) ++stats_.cached;
  if (!entry) entry = measure_now(node, offer, only);
  const auto known = known_.insert_or_assign(offer.problem, std::move(*entry)).first;
  const Timing* t = find(known->second.timings, chosen);
  return t ? t->min : chosen.estimate_us;
}

std::vector<Timing> Tuner::race(const std::string& name, std::span<const Way> ways) {
  std::vector<std::vector<size_t>> chosen(ways.size());
  for (size_t i = 0; i < ways.size(); ++i)
    for (const Way::Part& p : ways[i].parts) chosen[i].push_back(choose(*p.node, *p.offer).candidate);
  const std::lock_guard lock(mutex_);
  const auto in_order = [&](const CacheEntry& entry) {
    std::vector<Timing> timings;
    for (const Way& way : ways) {
      const auto at = std::ranges::find(entry.timings, way.name, &Timing::tactic);
      if (at != entry.timings.end()) timings.push_back(*at);
    }
    return timings;
  };
  if (const auto known = cache_->find(key(name)); known && known->level >= level_) {
    const bool again = known->under_load() && !up() && cores_are_free();
    if (std::vector<Timing> timings = in_order(*known); timings.size() == ways.size() && !again) return timings;
  }
  if (up()) return {};
  std::list<Trial> trials;
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < ways.size(); ++i) {
    std::vector<std::function<void()>> parts;
    for (size_t k = 0; k < ways[i].parts.size(); ++k) {
      const Way::Part& p = ways[i].parts[k];
      const ops::Candidate& c = p.offer->candidates[chosen[i][k]];
      parts.push_back(trials.emplace_back(*p.node, machine_).runner(c.tactic, c.config));
    }
    runs.emplace_back([parts = std::move(parts)] {
      for (const auto& run : parts) run();
    });
  }
  const Stopwatch watch = this->watch();
  const double begin = watch.now_us();
  Measured measured = measure(runs, measure_options(begin), watch);
  CacheEntry entry{key(name), level_, {}};
  for (size_t i = 0; i < ways.size(); ++i) {
    Samples& s = measured.samples[i];
    if (s.us.empty()) continue;
    entry.timings.push_back(summarize(ways[i].name, "", std::move(s.us)));
    entry.timings.back().under_load = s.under_load && measured.complete;
  }
  count_measurement(watch.now_us() - begin);
  if (!measured.complete || entry.timings.size() < ways.size()) {
    spent_s_ = std::max(spent_s_, time_.limit_s);
    return {};
  }
  return in_order(cache_->keep(std::move(entry)));
}

TunerStats Tuner::stats() const {
  std::lock_guard lock(mutex_);
  TunerStats stats = stats_;
  if (clocks_) stats.clocks = clocks_->seen();
  return stats;
}

}  // namespace smelt::tune
