#include "tune/in_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace smelt::tune {
namespace {

constexpr size_t trials_an_unknown = 2;
constexpr size_t looks_apart = 8;  // one look at the trials, and the next when there are an eighth more

/// Least squares of the trials' times: a mean of each batch, whose clocks may differ, and a difference of each finalist.
class Fit {
 public:
  explicit Fit(std::span<const Finalists> problems) {
    for (const Finalists& p : problems) {
      us_.emplace_back(p.count, 0.0);
      met_.emplace_back(p.count, 0);
      unknowns_ += p.count - 1;
    }
  }

  void add(std::span<const Lineup> lineups, std::span<const double> times) {
    for (size_t i = 0; i < lineups.size(); ++i) {
      trials_.push_back({lineups[i], means_.size(), times[i]});
      for (size_t p = 0; p < us_.size(); ++p) ++met_[p][lineups[i][p]];
    }
    means_.push_back(std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size()));
    ++unknowns_;
  }

  /// By turns each unknown becomes what fits best beside the others.
  void solve() {
    constexpr int most_rounds = 200;
    constexpr double still_us = 1e-4;
    for (Trial& t : trials_) {
      t.rest = t.us - means_[t.batch];
      for (size_t p = 0; p < us_.size(); ++p) t.rest -= us_[p][t.lineup[p]];
    }
    double moved = INFINITY;
    for (int round = 0; round < most_rounds && moved > still_us; ++round) {
      moved = fit(means_, [](const Trial& t) { return t.batch; });
      for (size_t p = 0; p < us_.size(); ++p)
        if (us_[p].size() > 1) moved = std::max(moved, fit(us_[p], [p](const Trial& t) { return t.lineup[p]; }));
    }
    double squares = 0;
    for (const Trial& t : trials_) squares += t.rest * t.rest;
    const double free = std::max(1.0, static_cast<double>(trials_.size()) - static_cast<double>(unknowns_));
    // The trials are no orthogonal design: what is said of one finalist is shared with others of as many unknowns.
    variance_ = squares / free * (static_cast<double>(trials_.size()) / free);
  }

  bool is_enough() const { return trials_.size() >= trials_an_unknown * unknowns_ + 8; }
  size_t trials() const { return trials_.size(); }
  double us(size_t p, size_t c) const { return us_[p][c]; }
  size_t met(size_t p, size_t c) const { return met_[p][c]; }
  double error(size_t p, size_t a, size_t b) const {
    const auto part = [&](size_t c) { return 1.0 / static_cast<double>(std::max<size_t>(met_[p][c], 1)); };
    return std::sqrt(variance_ * (part(a) + part(b)));
  }
  double mean() const { return std::accumulate(means_.begin(), means_.end(), 0.0) / static_cast<double>(means_.size()); }

 private:
  struct Trial {
    Lineup lineup;
    size_t batch;
    double us, rest = 0;
  };
  template <class Of> double fit(std::vector<double>& values, Of&& of) {
    std::vector<double> sum(values.size()), count(values.size());
    for (const Trial& t : trials_) sum[of(t)] += t.rest, count[of(t)] += 1;
    double most = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum[i] = count[i] > 0 ? sum[i] / count[i] : 0;
      values[i] += sum[i];
      most = std::max(most, std::abs(sum[i]));
    }
    for (Trial& t : trials_) t.rest -= sum[of(t)];
    return most;
  }

  std::vector<std::vector<double>> us_;
  std::vector<std::vector<size_t>> met_;
  std::vector<double> means_;
  std::vector<Trial> trials_;
  size_t unknowns_ = 0;
  double variance_ = 0;
};

class ModelRace {
 public:
  ModelRace(std::span<const Finalists> problems, const FinalOptions& options)
      : problems_(problems), options_(options), fit_(problems) {
    for (const Finalists& p : problems) {
      in_.emplace_back(p.count);
      std::iota(in_.back().begin(), in_.back().end(), size_t{0});
    }
  }

  Final run(const TimeLineups& time) {
    while (fit_.trials() < options_.most_trials && !all_decided()) {
      const std::vector<Lineup> lineups = draw();
      const std::vector<double> times = time(lineups);
      if (times.size() != lineups.size()) break;
      fit_.add(lineups, times);
      if (!fit_.is_enough() || fit_.trials() < next_look_) continue;
      fit_.solve();
      next_look_ = fit_.trials() + fit_.trials() / looks_apart;
      for (size_t p = 0; p < problems_.size(); ++p)
        if (open(p)) decide(p);
    }
    if (fit_.is_enough()) fit_.solve();
    Final result;
    result.trials = fit_.trials();
    const bool says = result.enough = fit_.is_enough();
    for (size_t p = 0; p < problems_.size(); ++p) {
      result.undecided += open(p);
      size_t best = 0;  // those that left the race among them
      for (size_t c = 1; c < problems_[p].count && says; ++c)
        if (fit_.us(p, c) < fit_.us(p, best)) best = c;
      result.chosen.push_back(says ? chosen(p) : 0);
      std::vector<double>& us = result.us.emplace_back(problems_[p].count);
      double error = 0;
      for (size_t c = 0; c < us.size() && says; ++c) {
        us[c] = fit_.us(p, c) - fit_.us(p, best);
        error = std::max(error, c == best ? 0 : fit_.error(p, c, best));
      }
      result.error_us.push_back(error);
    }
    return result;
  }

 private:
  bool open(size_t p) const { return in_[p].size() > 1; }
  bool all_decided() const {
    for (size_t p = 0; p < problems_.size(); ++p)
      if (open(p)) return false;
    return true;
  }

  std::vector<Lineup> draw() {
    std::vector<Lineup> lineups(options_.batch, Lineup(problems_.size()));
    std::vector<size_t> order(options_.batch);
    for (size_t p = 0; p < problems_.size(); ++p) {
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::shuffle(order, random_);
      for (size_t i = 0; i < order.size(); ++i) lineups[order[i]][p] = in_[p][i % in_[p].size()];
    }
    return lineups;
  }

  /// The price of a place.
  double place_us(size_t p) const {
    return options_.place * std::max(problems_[p].us, fit_.mean() / static_cast<double>(problems_.size()));
  }

  double sum_us(size_t p, size_t c) const { return fit_.us(p, c) + static_cast<double>(c) * place_us(p); }
  size_t chosen(size_t p) const {
    return *std::ranges::min_element(in_[p], {}, [&](size_t c) { return sum_us(p, c); });
  }

  void decide(size_t p) {
    const size_t best = chosen(p);
    std::erase_if(in_[p],
                  [&](size_t c) { return c != best && sum_us(p, c) - sum_us(p, best) > options_.sure * fit_.error(p, c, best); });
  }

  std::span<const Finalists> problems_;
  const FinalOptions& options_;
  Fit fit_;
  size_t next_look_ = 0;
  std::vector<std::vector<size_t>> in_;  // by problem, in order: still in the race
  std::mt19937 random_{1};
};

}  // namespace

size_t first_alone(std::span<const Timing> timings) {
  double best = INFINITY;
  for (const Timing& t : timings)
    if (t.runs()) best = std::min(best, t.min);
  for (size_t i = 0; i < timings.size(); ++i)
    if (timings[i].runs() && timings[i].min <= same_time * best + alone_equal_us) return i;
  return timings.size();
}

std::vector<size_t> finalists(std::span<const Timing> timings) {
  std::vector<size_t> near;
  for (size_t i = 0; i < timings.size(); ++i)
    if (timings[i].runs()) near.push_back(i);
  std::ranges::stable_sort(near, {}, [&](size_t i) { return timings[i].min; });
  if (near.empty()) return {};
  const double longest = finalist_within * timings[near.front()].min + finalist_beyond_us;
  std::erase_if(near, [&](size_t i) { return timings[i].min > longest; });
  std::ranges::sort(near);
  if (near.size() > most_finalists) {
    near.resize(most_finalists);
    near.back() = std::max(near.back(), first_alone(timings));
  }
  return near.size() < 2 ? std::vector<size_t>() : near;
}

Final race_in_model(std::span<const Finalists> problems, const TimeLineups& time, const FinalOptions& options) {
  return ModelRace(problems, options).run(time);
}

std::vector<size_t> worth_trials(std::span<const Finalists> problems, size_t trials) {
  std::vector<size_t> order(problems.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t p) { return problems[p].count < 2; });
  std::ranges::stable_sort(order, std::greater(), [&](size_t p) { return problems[p].us; });
  size_t unknowns = 8, taken = 0;
  for (; taken < order.size(); ++taken) {
    unknowns += problems[order[taken]].count - 1;
    if ((trials_an_unknown + 1) * unknowns > trials) break;
  }
  order.resize(taken);
  return order;
}

}  // namespace smelt::tune
