// How a Tuner measures: how long, what it keeps of it, and when it does so again.
#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/widest.h"
#include "device/cpu/onednn_threads.h"
#include "ops/cuda/gpu.h"
#include "tune/gpu_trial.h"
#include "tune/trial.h"
#include "tune/tuner.h"

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

/// The memory that parts of a way share. What no part makes before it is read is as a Trial's inputs are.
class SharedMemory {
 public:
  explicit SharedMemory(const Tuner::Way& way) {
    std::map<int, int64_t> bytes;
    each(way, [&](int number, const ops::BoundTensor& t) {
      int64_t& most = bytes[number];
      most = std::max(most, ops::storage_bytes(t));
    });
    for (const auto& [number, size] : bytes) tensors_[number] = trial_memory(size);
    std::mt19937 random(1);
    std::set<int> filled;
    each(way, [&](int number, const ops::BoundTensor& t) {
      if (!filled.insert(number).second) return;
      fill_random({at(number), static_cast<size_t>(ops::storage_bytes(t))}, t.type, random);
    });
  }
  /// Where the part's inputs and outputs lie.
  std::vector<std::byte*> of(const Tuner::Way::Part& part) {
    std::vector<std::byte*> all;
    for (int number : part.memory) all.push_back(tensors_.contains(number) ? at(number) : nullptr);
    return all;
  }

 private:
  template <class F> static void each(const Tuner::Way& way, F&& f) {
    for (const Tuner::Way::Part& p : way.parts) {
      for (size_t i = 0; i < p.memory.size(); ++i) {
        const size_t inputs = p.node->inputs.size();
        const ops::BoundTensor& t = i < inputs ? p.node->inputs[i] : p.node->outputs[i - inputs];
        if (p.memory[i] >= 0 && !t.constant.valid() && t.type != DType::undefined) f(p.memory[i], t);
      }
    }
  }
  std::byte* at(int number) { return static_cast<std::byte*>(tensors_.at(number).raw()); }
  std::map<int, Tensor> tensors_;
};

/// How much longer than alone something takes that one thread computes, such as making kernels: what no thread had a core for.
class HeldUp {
 public:
  explicit HeldUp(const Stopwatch& watch) : watch_(watch), begin_(watch.now_us()) {
    if (watch_.ran) watch_.ran(before_);
  }
  double us() const {
    if (!watch_.ran) return 0;
    std::vector<int64_t> now;
    watch_.ran(now);
    int64_t busiest = 0;
    for (size_t i = 0; i < std::min(now.size(), before_.size()); ++i) busiest = std::max(busiest, now[i] - before_[i]);
    return std::max(0.0, watch_.now_us() - begin_ - 1e-3 * static_cast<double>(busiest));
  }

 private:
  const Stopwatch& watch_;
  double begin_;
  std::vector<int64_t> before_;
};

/// Notes in `width` how many threads its runs have.
void watch_width(Trial::Runner& runner, int& width) {
  runner.run = [run = std::move(runner.run), &width] {
    const threads::Widest widest;
    run();
    width = std::max(width, widest.threads());
  };
}

// Measurements of a candidate beside other work, after which a build measures it again only in its first seconds of measuring: where
// the cores never stay free, builds stay short, and where they do one day, all is settled by some of them.
constexpr int most_under_load = 3;
constexpr double most_anew_s = 2;
constexpr double most_held_up_s = 2;  // by other work, beyond what all measurements take alone

/// The timings of the ways, in their order; none where one is missing.
std::vector<Timing> in_order(const CacheEntry& entry, std::span<const std::string> ways) {
  std::vector<Timing> timings;
  for (const std::string& way : ways)
    if (const auto at = std::ranges::find(entry.timings, way, &Timing::tactic); at != entry.timings.end()) timings.push_back(*at);
  return timings.size() == ways.size() ? timings : std::vector<Timing>();
}

}  // namespace

Stopwatch Tuner::watch() const {
  // The machine's has files open for each thread of the process, so that it is not kept.
  return time_.watch ? *time_.watch : machine_stopwatch();
}

MeasureOptions Tuner::measure_options(double begin_us) const {
  MeasureOptions options = machine_.gpu ? gpu_options_of(level_) : options_of(level_);
  if (time_.limit_s > 0) options.deadline_us = begin_us + 1e6 * (time_.limit_s - spent_s_);
  return options;
}

void Tuner::count_measurement(double us, double held_up_us) {
  stats_.seconds += 1e-6 * us;
  spent_s_ += 1e-6 * us;
  held_up_s_ += 1e-6 * held_up_us;
  const double alone_s = stats_.seconds - held_up_s_;
  if (only_likeliest_ || machine_.gpu || held_up_s_ <= alone_s + most_held_up_s) return;
  only_likeliest_ = true;
  info("measuring took {:.1f} s instead of {:.1f} beside other work: only the likeliest candidates are measured from now on",
       stats_.seconds, alone_s);
}

Tuner::Taken Tuner::measure_now(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& which) {
  Stopwatch watch = this->watch();
  if (machine_.gpu) watch.ran = {};  // a thread that waits for a GPU sleeps
  const double begin = watch.now_us();
  const MeasureOptions options = measure_options(begin);
  Measured measured;
  std::deque<int> widths;
  if (machine_.gpu) {
    std::function<void()> look;
    if (clocks_) look = [&] { clocks_->look(); };
    measured = measure_on_gpu(node, offer, which, machine_, options, watch, look);
  } else {
    const HeldUp preparing(watch);
    Trial trial(node, machine_);
    std::vector<Trial::Runner> runs;
    for (size_t i : which) {
      try {
        runs.push_back(trial.runner(offer.candidates[i].tactic, offer.candidates[i].config));
      } catch (const Error& e) {  // oneDNN has descriptors that it generates no code for
        throw Unfit(e, i, true);
      }
    }
    for (Trial::Runner& r : runs) watch_width(r, widths.emplace_back(1));
    const double preparing_us = preparing.us();
    measured = measure(runs, cold_weights(), options, watch);
    measured.held_up_us += preparing_us;
  }
  std::vector<std::pair<size_t, Timing>> by_order;
  for (size_t i = 0; i < which.size(); ++i) {
    Samples& s = measured.samples[i];
    if (s.us.empty()) continue;
    const auto& c = offer.candidates[which[i]];
    by_order.emplace_back(which[i], summarize(c.tactic, c.config, std::move(s.us)));
    by_order.back().second.under_load = s.under_load && measured.complete;
    if (!widths.empty()) by_order.back().second.width = known_width(widths[i]);
  }
  std::ranges::sort(by_order, {}, &std::pair<size_t, Timing>::first);
  Taken taken{{}, measured.complete};
  for (auto& [i, t] : by_order) taken.timings.push_back(std::move(t));
  count_measurement(watch.now_us() - begin, measured.held_up_us);
  if (!taken.complete) spent_s_ = std::max(spent_s_, time_.limit_s);
  return taken;
}

void Tuner::add_left_out(CacheEntry& entry) {
  for (const Timing& t : left_out(entry.key.problem)) {
    std::erase_if(entry.timings, [&](const Timing& k) { return k.tactic == t.tactic && k.config == t.config; });
    entry.timings.push_back(t);
  }
}

void Tuner::measure_next(const ops::BoundNode& node, const ops::Offer& offer, const std::vector<size_t>& worth,
                         const Race& race) {
  CacheEntry known = race.known;
  if (find_alone(node, offer, race.next, known)) {  // what is left is another stage
    if (known_.insert_or_assign(offer.problem, std::move(known)).second) ++stats_.problems;
    return;
  }
  Taken taken = measure_now(node, offer, race.next);
  CacheEntry entry{race.known.key, level_, {}};
  // In the candidates' order. What is measured a second time, beside others, keeps the faster of its times.
  const auto take = [](std::vector<Timing>& from, const ops::Candidate& c) -> std::optional<Timing> {
    const auto at = std::ranges::find_if(from, [&](const Timing& t) { return t.tactic == c.tactic && t.config == c.config; });
    if (at == from.end()) return std::nullopt;
    Timing t = std::move(*at);
    from.erase(at);
    return t;
  };
  std::vector<Timing> before = race.known.timings;
  for (const ops::Candidate& c : offer.candidates) {
    std::optional<Timing> first = take(before, c), now = take(taken.timings, c);
    if (now && first && first->runs() && first->with_threads == 0) {
      if (now->under_load > first->under_load) now = first;
      now->min = std::min(now->min, first->min);
    }
    if (now || first) entry.timings.push_back(std::move(now ? *now : *first));
  }
  std::ranges::move(before, std::back_inserter(entry.timings));  // of candidates that another build had
  add_left_out(entry);
  const bool begins = undecided_.insert(offer.problem).second;
  if (begins) ++stats_.measured;
  if (taken.complete && missing(entry, offer, worth).empty()) {
    const Timing& best = entry.timings[winner_of(entry.timings)];
    info("measured {}: {} takes {}", offer.problem, best.tactic, spread(best));
    // Another process may have kept what decides nothing here: fewer tactics of a higher level.
    if (CacheEntry kept = cache_->keep(entry); missing(kept, offer, worth).empty()) entry = std::move(kept);
    undecided_.erase(offer.problem);
  }
  const bool is_new = known_.insert_or_assign(offer.problem, std::move(entry)).second;
  if (is_new || begins) ++stats_.problems;  // of a known problem it is a race of its own
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
    const Timing* t = timing_of(entry.timings, offer.candidates[i]);
    return t && t->under_load > 0 && (t->under_load < most_under_load || stats_.seconds < most_anew_s);
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
  if (const Timing* t = timing_of(choice.timings, chosen)) return t->min;
  const std::lock_guard lock(mutex_);
  if (level_ == 0 || up()) return chosen.estimate_us;
  const std::vector<size_t> only(1, choice.candidate);
  auto entry = cache_->find(key(offer.problem));
  if (!entry) {
    if (const auto& others = elsewhere(offer.problem); others && timing_of(others->timings, chosen)) {
      CacheEntry known = *others;
      const Timing* t = timing_of(known.timings, chosen);
      if (t->is_sure() || find_alone(node, offer, only, known)) {
        ++stats_.problems;
        t = timing_of(known_.insert_or_assign(offer.problem, std::move(known)).first->second.timings, chosen);
        return t->min;
      }
    }
  }
  if (entry && (entry->level < level_ || !timing_of(entry->timings, chosen) || measured_anew(*entry, offer, only))) entry.reset();
  ++stats_.problems;
  ++(entry ? stats_.cached : stats_.measured);
  if (!entry) {
    Taken taken = measure_now(node, offer, only);
    entry = CacheEntry{key(offer.problem), level_, std::move(taken.timings)};
    add_left_out(*entry);
    if (taken.complete) entry = cache_->keep(std::move(*entry));
  }
  const auto known = known_.insert_or_assign(offer.problem, std::move(*entry)).first;
  const Timing* t = timing_of(known->second.timings, chosen);
  return t ? t->min : chosen.estimate_us;
}

std::vector<Timing> Tuner::cached_race(const std::string& name, std::span<const std::string> ways) {
  const auto known = cache_->find(key(name));
  if (!known || known->level < level_) return {};
  std::vector<Timing> timings = in_order(*known, ways);
  const bool again = std::ranges::any_of(timings, [](const Timing& t) { return t.under_load > 0; }) && !up() && cores_are_free();
  if (timings.empty() || again) return {};
  races_.insert_or_assign(name, *known);
  return timings;
}

std::vector<Timing> Tuner::known_race(const std::string& name, std::span<const std::string> ways) {
  const std::lock_guard lock(mutex_);
  return level_ > 0 ? cached_race(race_name(name), ways) : std::vector<Timing>();
}

std::optional<Timing> Tuner::timing_known(const ops::Offer& offer, size_t candidate) {
  const auto known = known_.find(offer.problem);
  if (known == known_.end()) return std::nullopt;
  const Timing* t = timing_of(known->second.timings, offer.candidates[candidate]);
  return t && t->runs() && t->is_sure() && t->with_threads == 0 ? std::optional(*t) : std::nullopt;
}

void Tuner::keep_race(const std::string& name, std::span<const Way> ways) {
  CacheEntry entry{key(race_name(name)), level_, {}};
  for (const Way& way : ways) {
    Timing sum{.tactic = way.name, .config = ""};
    for (const Way::Part& p : way.parts) {
      const size_t chosen = choose(*p.node, *p.offer).candidate;
      const std::lock_guard lock(mutex_);
      const auto t = timing_known(*p.offer, chosen);
      if (!t) return;
      sum.min += t->min, sum.q1 += t->q1, sum.median += t->median, sum.q3 += t->q3, sum.p90 += t->p90;
      sum.samples = sum.samples == 0 ? t->samples : std::min(sum.samples, t->samples);
      sum.under_load = std::max(sum.under_load, t->under_load);
      sum.width = &p == &way.parts.front() || (sum.width > 0 && t->width > 0) ? std::max(sum.width, t->width) : 0;
    }
    entry.timings.push_back(std::move(sum));
  }
  const std::lock_guard lock(mutex_);
  races_.insert_or_assign(entry.key.problem, cache_->keep(entry));
}

std::vector<Timing> Tuner::race(const std::string& plain_name, std::span<const Way> ways) {
  std::vector<std::string> names;
  for (const Way& way : ways) names.push_back(way.name);
  if (std::vector<Timing> timings = race_elsewhere(plain_name, names); !timings.empty()) return timings;
  std::vector<std::vector<size_t>> chosen(ways.size());
  for (size_t i = 0; i < ways.size(); ++i)
    for (const Way::Part& p : ways[i].parts) chosen[i].push_back(choose(*p.node, *p.offer).candidate);
  const std::lock_guard lock(mutex_);
  const std::string name = race_name(plain_name);
  if (std::vector<Timing> timings = cached_race(name, names); !timings.empty()) return timings;
  if (up()) return {};
  std::list<Trial> trials;
  std::list<SharedMemory> memories;
  std::vector<Trial::Runner> runs;
  for (size_t i = 0; i < ways.size(); ++i) {
    SharedMemory& memory = memories.emplace_back(ways[i]);
    std::vector<std::function<void()>> parts;
    Trial::Runner& all = runs.emplace_back();
    for (size_t k = 0; k < ways[i].parts.size(); ++k) {
      const Way::Part& p = ways[i].parts[k];
      const ops::Candidate& c = p.offer->candidates[chosen[i][k]];
      Trial::Runner one = trials.emplace_back(*p.node, machine_, memory.of(p)).runner(c.tactic, c.config);
      parts.push_back(std::move(one.run));
      std::ranges::copy(one.cold, std::back_inserter(all.cold));
    }
    all.run = [parts = std::move(parts)] {
      for (const auto& run : parts) run();
    };
  }
  std::deque<int> widths;
  for (Trial::Runner& r : runs) watch_width(r, widths.emplace_back(1));
  if (std::vector<Timing> timings = of_one_thread(name, names); !timings.empty() && known_width(1) > 0) {
    for (const Trial::Runner& r : runs) r.run();
    if (std::ranges::all_of(widths, [](int n) { return n == 1; })) {
      for (Timing& t : timings) t.width = 1, t = with_other_threads(t, 1, machine_.threads);
      races_.insert_or_assign(name, CacheEntry{key(name), level_, timings});
      reused_.insert(name);
      return timings;
    }
  }
  const Stopwatch watch = this->watch();
  const double begin = watch.now_us();
  Measured measured = measure(runs, cold_weights(), measure_options(begin), watch);
  CacheEntry entry{key(name), level_, {}};
  for (size_t i = 0; i < ways.size(); ++i) {
    Samples& s = measured.samples[i];
    if (s.us.empty()) continue;
    entry.timings.push_back(summarize(ways[i].name, "", std::move(s.us)));
    entry.timings.back().under_load = s.under_load && measured.complete;
    entry.timings.back().width = known_width(widths[i]);
  }
  ++stats_.problems;
  ++stats_.measured;
  count_measurement(watch.now_us() - begin, measured.held_up_us);
  if (!measured.complete || entry.timings.size() < ways.size()) {
    spent_s_ = std::max(spent_s_, time_.limit_s);
    return {};
  }
  const Timing& best = entry.timings[winner(entry.timings)];
  info("measured {}: {} takes {}", name, best.tactic, spread(best));
  entry = cache_->keep(std::move(entry));
  races_.insert_or_assign(name, entry);
  return in_order(entry, names);
}

std::vector<Timing> Tuner::timings_of(const std::string& name, const std::vector<std::string>& ways,
                                      const std::function<std::vector<Timing>()>& measure) {
  if (const auto known = cache_->find(key(name)); known && known->level >= level_)
    if (std::vector<Timing> timings = in_order(*known, ways); !timings.empty()) return timings;
  if (time_is_up()) return {};
  CacheEntry entry{key(name), level_, measure()};
  if (in_order(entry, ways).empty()) return {};
  return in_order(cache_->keep(std::move(entry)), ways);
}

TunerStats Tuner::stats() const {
  std::lock_guard lock(mutex_);
  TunerStats stats = stats_;
  stats.under_load = std::ranges::count_if(known_, [](const auto& k) { return k.second.under_load(); });
  stats.out_of_time = std::ssize(out_of_time_);
  stats.reused = std::ranges::count_if(reused_, [&](const std::string& problem) { return !known_.contains(problem); });
  for (const auto& [problem, entry] : known_) {
    if (!is_borrowed(entry)) continue;
    const bool measured = std::ranges::any_of(entry.timings, [](const Timing& t) { return t.runs() && t.with_threads == 0; });
    ++(measured ? stats.narrowed : stats.reused);
  }
  if (clocks_) stats.clocks = clocks_->seen();
  return stats;
}

}  // namespace smelt::tune
