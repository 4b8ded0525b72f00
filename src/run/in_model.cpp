#include "run/in_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "ops/core/tactic_names.h"
#include "run/execution.h"
#include "run/plan.h"
#include "tune/in_model.h"
#include "tune/trial.h"

namespace smelt::run {
namespace {

/// Trials take so long, or so many runs of the model where that is longer, but no longer than the last.
constexpr double budget_us = 5e6, budget_runs = 1500, most_budget_us = 15e6;
/// What making a recording takes, beside its runs.
constexpr double recording_us = 200, launch_us = 3;

/// A problem and the steps of a segment that are it.
struct Group {
  std::string problem;
  std::vector<size_t> steps;
  tune::Finalists finalists;
};

double alone_us(const plan::Step& step) {
  const auto at = std::ranges::find_if(step.choice->timings,
                                       [&](const tune::Timing& t) { return t.tactic == step.tactic && t.config == step.config; });
  return at == step.choice->timings.end() ? 0 : at->min;
}

std::vector<Group> groups_of(const plan::Segment& s) {
  std::map<std::string, size_t> known;
  std::vector<Group> groups;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Step& step = s.steps[i];
    if (step.finalists.empty()) continue;
    const auto [at, is_new] = known.try_emplace(step.problem, groups.size());
    if (is_new) groups.push_back({step.problem, {}, {step.finalists.size(), 0}});
    groups[at->second].steps.push_back(i);
    groups[at->second].finalists.us += alone_us(step);
  }
  return groups;
}

size_t distinct_constants(const std::vector<PlanImpl::Prepared>& prepared) {
  std::set<const void*> at;
  for (const PlanImpl::Prepared& p : prepared)
    for (const Tensor& t : constants_read(p.segment->segment)) at.insert(t.raw());
  return at.size();
}

std::string text_of(const plan::ChosenKernel& k) { return k.tactic + " " + k.config; }

/// What the cache knows the choice by: the steps' problems, what runs them, and what may.
std::string name_of(const plan::Segment& s, bool early) {
  std::string text = early ? "early\n" : "late\n";
  for (const plan::Step& step : s.steps) {
    text += step.problem + '\t' + text_of(step);
    for (const plan::Finalist& f : step.finalists) text += '\t' + text_of(f);
    text += '\n';
  }
  return fmt::format("finalists of {} steps {:016x}", s.steps.size(), hash_bytes(text.data(), static_cast<int64_t>(text.size())));
}

/// Of a problem, by its number among those that were measured: a way for what was chosen, and one for each finalist.
std::string way_of(size_t problem) { return fmt::format("{}", problem); }
std::string way_of(size_t problem, size_t finalist) { return fmt::format("{}.{}", problem, finalist); }

tune::Timing timing(std::string way, std::string config, double us, size_t trials) {
  return {.tactic = std::move(way),
          .config = std::move(config),
          .min = us,
          .q1 = us,
          .median = us,
          .q3 = us,
          .p90 = us,
          .samples = static_cast<int>(std::max<size_t>(trials, 1))};
}

class Measuring {
 public:
  Measuring(const std::shared_ptr<PlanImpl>& plan, bool early) : plan_(plan), execution_(plan), early_(early) {}
  /// Binds random inputs of these shapes, and runs.
  void begin(std::span<const Shape> shapes) {
    std::mt19937 random(1);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      Tensor& t = inputs.emplace_back(Tensor::zeros(plan_->inputs()[i].type, shapes[i]));
      const DType type = t.type();
      if (type == DType::f32 || type == DType::f16 || type == DType::bf16) tune::fill_random(t, type, random);
    }
    execution_.bind(inputs);
    execution_.run();  // brings the inputs there
  }
  double once_us() { return execution_.run_timed(3); }
  tune::Final race(std::span<const Group> groups, double budget_us) {
    std::vector<std::vector<size_t>> steps;
    std::vector<tune::Finalists> finalists;
    for (const Group& g : groups) steps.push_back(g.steps), finalists.push_back(g.finalists);
    const auto begin = std::chrono::steady_clock::now();
    return tune::race_in_model(finalists, [&](std::span<const tune::Lineup> lineups) -> std::vector<double> {
      const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
      if (spent.count() > budget_us || plan_->context().tuner.time_is_up()) return {};
      return execution_.time_lineups(lineups, steps, early_);
    });
  }
  std::vector<PlanImpl::Prepared> take_prepared() { return execution_.take_prepared(); }

 private:
  std::shared_ptr<PlanImpl> plan_;
  ExecutionImpl execution_;
  bool early_;
};

/// What was found of the groups whose finalists can be told apart in the time that there is, as the cache keeps it; the plan's
/// prepared segments are there again.
std::vector<tune::Timing> measure(const std::shared_ptr<PlanImpl>& plan, std::span<const Shape> shapes,
                                  const std::vector<Group>& all, bool early) {
  std::vector<tune::Timing> timings;
  Measuring measuring(plan, early);
  const auto begin = std::chrono::steady_clock::now();
  try {
    measuring.begin(shapes);
    const double once = measuring.once_us(), steps = static_cast<double>(plan->steps().size());
    const double budget = std::clamp(budget_runs * once, budget_us, most_budget_us);
    const double runs = std::clamp<double>(ExecutionImpl::lineup_sample_us / once, 1, ExecutionImpl::most_lineup_runs);
    const double trial = recording_us + steps * launch_us + once * (1 + ExecutionImpl::lineup_samples * runs);
    std::vector<tune::Finalists> finalists;
    for (const Group& g : all) finalists.push_back(g.finalists);
    const std::vector<size_t> worth = tune::worth_trials(finalists, static_cast<size_t>(budget / trial));
    std::vector<Group> groups;
    for (const size_t i : worth) groups.push_back(all[i]);
    const tune::Final found = measuring.race(groups, budget);
    info("{}: {} of {} problems with finalists were measured in the model by {} trials of {:.1f} us, {} were left undecided",
         plan->graph().name, groups.size(), all.size(), found.trials, once, found.undecided);
    std::vector<size_t> place(all.size(), all.size());
    for (size_t k = 0; k < worth.size(); ++k) place[worth[k]] = k;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool known = place[i] < all.size() && found.enough;
      timings.push_back(timing(way_of(i), known ? fmt::format("{}", found.chosen[place[i]]) : "", 0, found.trials));
      for (size_t c = 0; c < all[i].finalists.count; ++c)
        timings.push_back(timing(way_of(i, c), known ? fmt::format("{:.2f}", found.error_us[place[i]]) : "",
                                 known ? found.us[place[i]][c] : 0, found.trials));
    }
  } catch (const Error& e) {
    if (e.code() == ExitCode::stopped) throw;
    info("{}: what was measured alone decides, since the model could not be measured: {}", plan->graph().name, e.what());
    timings.clear();
  }
  plan->put_prepared(measuring.take_prepared());
  plan->context().tuner.spend(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return timings;
}

}  // namespace

bool choose_in_model(const std::shared_ptr<PlanImpl>& plan) {
  std::vector<PlanImpl::Prepared> prepared = plan->take_prepared();
  const bool any = !prepared.empty() && prepared.front().segment->unplaced;
  if (!any) {
    plan->put_prepared(std::move(prepared));
    return false;
  }
  plan::StageClock clock(*plan->context().stages);
  const bool early = plan->backend().begins_early() && plan::tactic_filter(plan->options()).allows(ops::early_launch);
  const std::vector<Shape> shapes = prepared.front().shapes;
  const std::vector<Group> groups = groups_of(prepared.front().segment->segment);
  const std::string name = name_of(prepared.front().segment->segment, early);
  plan->put_prepared(std::move(prepared));
  std::vector<std::string> ways;
  for (size_t i = 0; i < groups.size(); ++i) {
    ways.push_back(way_of(i));
    for (size_t c = 0; c < groups[i].finalists.count; ++c) ways.push_back(way_of(i, c));
  }
  const bool may = !plan->has_if();
  const std::vector<tune::Timing> timings = plan->context().tuner.timings_of(name, ways, [&]() -> std::vector<tune::Timing> {
    return may ? measure(plan, shapes, groups, early) : std::vector<tune::Timing>();
  });
  plan::ModelChoices chosen;
  std::map<std::string, std::vector<std::string>> said;
  size_t at = 0;
  for (size_t i = 0; i < groups.size() && !timings.empty(); ++i) {
    const std::string& of = timings[at++].config;
    std::vector<std::string>& why = said[groups[i].problem];
    for (size_t c = 0; c < groups[i].finalists.count; ++c, ++at)
      why.push_back(fmt::format("with it a run of the model takes {:.1f} µs longer than with the fastest (± {} µs)",
                                timings[at].min, timings[at].config));
    const size_t finalist = of.empty() ? groups[i].finalists.count : static_cast<size_t>(std::atoi(of.c_str()));
    if (finalist < groups[i].finalists.count)
      chosen[groups[i].problem] = finalist;
    else
      said.erase(groups[i].problem);
  }
  prepared = plan->take_prepared();
  const size_t read = distinct_constants(prepared);
  for (PlanImpl::Prepared& p : prepared) plan->planner().settle(*p.segment, chosen, said);
  if (distinct_constants(prepared) < read) plan->backend().forget_constants();
  plan->put_prepared(std::move(prepared));
  clock.end("tuning in the model");
  return true;
}

}  // namespace smelt::run
