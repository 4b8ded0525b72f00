#include "run/early_launch.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "ops/core/tactic_names.h"
#include "run/execution.h"
#include "run/plan.h"

namespace smelt::run {

namespace {

/// The steps' problems and what runs them, as the cache knows the comparison by.
std::string name_of(const plan::Segment& s) {
  std::string text;
  for (const plan::Step& step : s.steps) text += step.problem + '\t' + step.tactic + '\t' + step.config + '\n';
  return fmt::format("early launch of {} steps {:016x}", s.steps.size(),
                     hash_bytes(text.data(), static_cast<int64_t>(text.size())));
}

plan::EarlyLaunch undecided(std::string_view why) {
  plan::EarlyLaunch e;
  e.why_not = why;
  return e;
}

/// Records and times both ways; keeps what was planned for the plan's first Execution.
ExecutionImpl::BothWays time_both_ways(const std::shared_ptr<PlanImpl>& plan, std::span<const Shape> shapes) {
  ExecutionImpl execution(plan);
  ExecutionImpl::BothWays times;
  try {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back(Tensor::zeros(plan->inputs()[i].type, shapes[i]));
    execution.bind(inputs);
    times = execution.time_both_ways();
  } catch (const Error& e) {
    if (e.code() == ExitCode::stopped) throw;
    info("{}: kernels do not begin early, since that could not be measured: {}", plan->graph().name, e.what());
    times = {.why_not = "it could not be measured"};
  }
  plan->put_prepared(execution.take_prepared());
  return times;
}

}  // namespace

plan::EarlyLaunch choose_early_launch(const std::shared_ptr<PlanImpl>& plan, const std::optional<plan::EarlyLaunch>& carried) {
  using By = plan::EarlyLaunch::By;
  if (!plan->backend().begins_early()) return {};
  const tune::TacticFilter filter = plan::tactic_filter(plan->options());
  if (filter.asks_for(ops::early_launch)) return {.on = true, .by = By::tactics};
  if (!filter.allows(ops::early_launch)) return {.by = By::tactics};
  if (carried) return *carried;
  tune::Tuner& tuner = plan->context().tuner;
  if (!tuner.measures()) return undecided("nothing is measured at tuning level 0");
  if (plan->has_if()) return undecided("a run decides which kernels there are");
  plan::StageClock clock(*plan->context().stages);
  std::vector<PlanImpl::Prepared> prepared = plan->take_prepared();
  if (prepared.empty()) return undecided("its shapes are known in a run only");
  const std::vector<Shape> shapes = prepared.front().shapes;
  const std::string name = name_of(prepared.front().segment->segment);
  plan->put_prepared(std::move(prepared));
  ExecutionImpl::BothWays measured{.why_not = "the time for measuring was up"};
  bool now = false;
  const std::vector<tune::Timing> times = tuner.timings_of(name, {"late", "early"}, [&]() -> std::vector<tune::Timing> {
    measured = time_both_ways(plan, shapes), now = true;
    if (!measured.why_not.empty()) return {};
    return {tune::summarize("late", "", {measured.late_us}), tune::summarize("early", "", {measured.early_us})};
  });
  clock.end("early launch");
  if (times.empty()) return undecided(measured.why_not);
  const double late_us = times[0].median, early_us = times[1].median;
  return {plan::pays(late_us, early_us), now ? By::measurement : By::cache, late_us, early_us, {}};
}

plan::EarlyLaunch early_launch_of(const Plan& plan) {
  const auto* made = dynamic_cast<const PlanImpl*>(&plan);
  return made ? made->early_launch() : plan::EarlyLaunch();
}

}  // namespace smelt::run
