#include "profile/foresee.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "profile/limiter.h"

namespace smelt::profile {
namespace {

/// What a step computes: steps that are alike in it differ by their kernels alone.
auto work_of(const StepInfo& s) { return std::tuple(s.op, s.problem, s.output_shapes); }
/// The kernel and what it runs on: steps that are alike in it take the same time.
auto kernel_of(const StepInfo& s) { return std::tuple(s.op, s.problem, s.output_shapes, s.tactic, s.config); }

/// The sum of what steps take over that of what they took when tuned, for each tactic. What little is known of a tactic counts less
/// than what is known of all: an eighth of all is added to it.
class TunedRatios {
 public:
  void add(const StepInfo& s, double took) {
    if (s.measured_us <= 0) return;
    for (Sum* sum : {&by_tactic_[s.tactic], &all_}) sum->took += took, sum->tuned += s.measured_us;
  }
  double of(const StepInfo& s) const {
    if (all_.tuned <= 0) return 1;
    const auto at = by_tactic_.find(s.tactic);
    const Sum own = at == by_tactic_.end() ? Sum{} : at->second;
    return (own.took + prior * all_.took) / (own.tuned + prior * all_.tuned);
  }

 private:
  static constexpr double prior = 1.0 / 8;
  struct Sum {
    double took = 0, tuned = 0;
  };
  std::map<std::string, Sum> by_tactic_;
  Sum all_;
};

/// What a step must take: its roof, and starting it.
double least_us(const StepInfo& s, const Roof& roof) {
  return roof.launch_us + roof.floor_us(static_cast<double>(s.bytes), static_cast<double>(s.flops), computes_in(s));
}

/// How far steps are from what they must take: the median of a tactic's, or of all.
class RoofRatios {
 public:
  RoofRatios(std::span<const StepRow> rows, const Roof& roof) {
    for (const StepRow& r : rows)
      if (const double least = least_us(r.step, roof); least > 0)
        for (auto* ratios : {&by_tactic_[r.step.tactic], &all_}) ratios->push_back(r.own_us() / least);
  }
  double of(const StepInfo& s) const {
    const auto at = by_tactic_.find(s.tactic);
    const std::vector<double>& ratios = at == by_tactic_.end() ? all_ : at->second;
    return ratios.empty() ? 1 : median(ratios);
  }

 private:
  std::map<std::string, std::vector<double>> by_tactic_;
  std::vector<double> all_;
};

/// What the tuner says that another kernel took; 0 where it was not timed.
double noted_us(const StepInfo& s, const StepInfo& kernel) {
  for (const TacticNote& n : s.others)
    if (n.tactic == kernel.tactic && n.config == kernel.config) return n.us;
  return 0;
}

}  // namespace

Foreseen foresee(const Profile& p, std::span<const StepInfo> other, double early) {
  std::map<decltype(kernel_of(other[0])), std::vector<double>> took;
  std::map<decltype(work_of(other[0])), const StepRow*> works;
  TunedRatios of_tuned;
  const RoofRatios of_roof(p.steps, p.roof);
  double own = 0;
  for (const StepRow& r : p.steps) {
    took[kernel_of(r.step)].push_back(r.own_us());
    works.emplace(work_of(r.step), &r);
    of_tuned.add(r.step, r.own_us());
    own += r.own_us();
  }
  Foreseen f{.steps = static_cast<int>(other.size())};
  double sum = 0;
  for (const StepInfo& s : other) {
    const auto work = works.find(work_of(s));
    const double before = work == works.end() ? 0 : noted_us(s, work->second->step);
    if (const auto at = took.find(kernel_of(s)); at != took.end() && !s.problem.empty())
      sum += median(at->second), ++f.seen;
    else if (s.measured_us > 0)  // both kernels in turn, where the tuner timed both: what a run adds to one it adds to the other
      sum += s.measured_us * (before > 0 ? work->second->own_us() / before : of_tuned.of(s)), ++f.tuned, f.beside += before > 0;
    else
      sum += least_us(s, p.roof) * of_roof.of(s);
  }
  const double gap = p.steps.empty() ? 0 : p.gaps_us / static_cast<double>(p.steps.size());
  const double before = own + p.gaps_us, after = early * (sum + gap * f.steps);
  const double others = std::min(p.others.cost_us, p.latency_us.median);  // they take it of the other plan's runs too
  f.run_us = before > 0 ? others + (p.latency_us.median - others) * after / before : 0;
  return f;
}

}  // namespace smelt::profile
