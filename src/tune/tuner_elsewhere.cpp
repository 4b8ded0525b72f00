// What a Tuner takes from timings with another number of threads.
#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/widest.h"
#include "device/cpu/onednn_threads.h"
#include "tune/trial.h"
#include "tune/tuner.h"

namespace smelt::tune {

// Where oneDNN keeps threads of its own, nobody sees how many of them have something to do.
int Tuner::known_width(int seen) const { return machine_.threads > 1 && device::onednn_uses_team() ? seen : 0; }

bool Tuner::others_are_known() {
  if (machine_.gpu || all_at_once_) return false;  // what somebody wants to see is measured
  if (!carried_.empty()) return true;
  bool known = others_are_known_.value_or(false);
  if (!others_are_known_) {
    const auto here = team_device(key({}).device);
    known = level_ > 0 && here && std::ranges::any_of(cache_->devices(machine_.versions), [&](const std::string& device) {
              const auto there = team_device(device);
              return there && there->processor == here->processor && there->threads != here->threads;
            });
    others_are_known_ = known;
  }
  return known;
}

bool Tuner::knows_other_threads() {
  const std::lock_guard lock(mutex_);
  return others_are_known();
}

const std::optional<CacheEntry>& Tuner::elsewhere(const std::string& problem) {
  const auto [at, first] = elsewhere_.try_emplace(problem);
  if (!first || !others_are_known()) return at->second;
  if (const auto carried = carried_.find(problem); carried != carried_.end())
    at->second = from_other_threads({&carried->second, 1}, key(problem), 0, true);
  if (!at->second && level_ > 0) {
    const std::vector<CacheEntry> all = cache_->of_problem(problem, machine_.versions);
    at->second = from_other_threads(all, key(problem), level_);
    if (!at->second && !cores_are_free()) at->second = from_other_threads(all, key(problem), level_, true);
  }
  if (std::optional<CacheEntry>& found = at->second) found->level = level_;
  return at->second;
}

std::optional<Choice> Tuner::likely(const ops::Offer& offer, const std::vector<size_t>& allowed,
                                    std::span<const Timing> timings) const {
  std::vector<size_t> by_cost = allowed, timed;
  std::ranges::stable_sort(by_cost, {}, [&](size_t i) { return offer.candidates[i].estimate_us; });
  std::vector<Timing> known;
  for (const size_t i : by_cost) {
    const Timing* t = timing_of(timings, offer.candidates[i]);
    if (!t || !t->runs()) continue;
    // Here all are compared by what is expected.
    known.push_back(*t);
    known.back().scaled = 1;
    timed.push_back(i);
  }
  if (timed.empty()) return std::nullopt;
  const size_t first = winner(known);
  Choice choice{.candidate = timed[first], .timings = {}, .others = {}};
  choice.with_threads = known[first].with_threads;
  for (const size_t i : allowed) {
    if (i == choice.candidate) continue;
    const ops::Candidate& c = offer.candidates[i];
    const auto at = std::ranges::find(timed, i);
    choice.others.push_back(
        {c.tactic, c.config,
         at == timed.end()
             ? fmt::format("estimated at {:.1f} µs: not measured with another number of threads, where the chosen one was",
                           c.estimate_us)
             : fmt::format("{:.1f} µs expected by its time with another number of threads, {:.1f} µs of the chosen one",
                           known[static_cast<size_t>(at - timed.begin())].min, known[first].min)});
  }
  return choice;
}

bool Tuner::find_alone(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& which, CacheEntry& entry) {
  if (machine_.gpu || machine_.threads == 1 || !device::onednn_uses_team()) return false;
  std::vector<Timing*> asked;
  for (const size_t i : which) {
    const auto t = std::ranges::find_if(entry.timings, [&](const Timing& k) {
      return k.tactic == offer.candidates[i].tactic && k.config == offer.candidates[i].config;
    });
    if (t != entry.timings.end() && t->with_threads == 1 && t->width == 0) asked.push_back(&*t);
  }
  if (asked.empty()) return false;
  const Stopwatch watch = this->watch();
  const double begin = watch.now_us();
  bool some = false;
  Trial trial(node, machine_);
  for (Timing* t : asked) {
    try {
      const Trial::Runner runner = trial.runner(t->tactic, t->config);
      const threads::Widest widest;
      runner.run();
      t->width = widest.threads();
    } catch (const Error&) {  // measuring it says why
      t->width = machine_.threads;
    }
    if (t->width > 1) continue;
    *t = with_other_threads(*t, t->with_threads, machine_.threads);
    some = true;
  }
  count_measurement(watch.now_us() - begin, 0);
  return some;
}

std::vector<Timing> Tuner::race_elsewhere(const std::string& plain_name, std::span<const std::string> ways) {
  const std::lock_guard lock(mutex_);
  const std::string name = race_name(plain_name);
  if (level_ == 0 || !others_are_known()) return {};
  if (const auto own = cache_->find(key(name)); own && own->level >= level_) return {};
  const auto& others = elsewhere(name);
  if (!others) return {};
  std::vector<Timing> timings;
  for (const std::string& way : ways) {
    const auto at = std::ranges::find(others->timings, way, &Timing::tactic);
    if (at == others->timings.end()) return {};
    timings.push_back(*at);
  }
  if (!settles(timings)) return {};
  reused_.insert(name);
  races_.insert_or_assign(name, *others);
  return timings;
}

std::vector<Timing> Tuner::of_one_thread(const std::string& name, std::span<const std::string> ways) {
  const auto& others = elsewhere(name);
  std::vector<Timing> timings;
  for (const std::string& way : ways) {
    if (!others) return {};
    const auto at = std::ranges::find(others->timings, way, &Timing::tactic);
    if (at == others->timings.end() || at->with_threads != 1 || at->width != 0) return {};
    timings.push_back(*at);
  }
  return timings;
}

std::optional<Bounds> Tuner::expected(const ops::Offer& offer) {
  const std::lock_guard lock(mutex_);
  const CacheEntry* entry = nullptr;
  const auto known = known_.find(offer.problem);
  const auto cached = known == known_.end() && level_ > 0 ? cache_->find(key(offer.problem)) : std::nullopt;
  if (known != known_.end()) {
    entry = &known->second;
  } else if (cached && cached->level >= level_) {
    entry = &*cached;
  } else if (const auto& others = elsewhere(offer.problem)) {
    entry = &*others;
  }
  if (!entry) return std::nullopt;
  std::optional<Bounds> best;
  for (const ops::Candidate& c : offer.candidates) {
    const Timing* t = filter_.allows(c.tactic) ? timing_of(entry->timings, c) : nullptr;
    if (!t || !t->runs()) continue;
    const Bounds b = bounds(*t);
    if (!best) best = b;
    best = Bounds{std::min(best->least, b.least), std::min(best->us, b.us), std::min(best->most, b.most)};
  }
  return best;
}

std::vector<CacheEntry> Tuner::decisive() const {
  const std::lock_guard lock(mutex_);
  std::vector<CacheEntry> all;
  for (const auto* entries : {&known_, &races_})
    for (const auto& [problem, e] : *entries) all.push_back(e);
  return all;
}

}  // namespace smelt::tune
