#include "run/early_launch.h"

#include "base/error.h"
#include "base/log.h"
#include "ops/core/tactic_names.h"
#include "run/execution.h"
#include "run/plan.h"

namespace smelt::run {

plan::EarlyLaunch choose_early_launch(const std::shared_ptr<PlanImpl>& plan, const std::optional<plan::EarlyLaunch>& carried) {
  using By = plan::EarlyLaunch::By;
  plan::EarlyLaunch chosen;
  if (!plan->backend().begins_early()) return chosen;
  const tune::TacticFilter filter = plan::tactic_filter(plan->options());
  if (filter.asks_for(ops::early_launch)) return {.on = true, .by = By::tactics};
  if (!filter.allows(ops::early_launch)) return {.by = By::tactics};
  if (carried) return *carried;
  if (plan->options().tuning_level == 0 || plan->has_if() || plan->context().tuner.time_is_up()) return chosen;
  plan::StageClock clock(*plan->context().stages);
  std::vector<PlanImpl::Prepared> prepared = plan->take_prepared();
  if (prepared.empty()) return chosen;
  const std::vector<Shape> shapes = prepared.front().shapes;
  plan->put_prepared(std::move(prepared));
  ExecutionImpl execution(plan);
  try {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back(Tensor::zeros(plan->inputs()[i].type, shapes[i]));
    execution.bind(inputs);
    if (const auto times = execution.time_both_ways())
      chosen = {plan::pays(times->late_us, times->early_us), By::measurement, times->late_us, times->early_us};
  } catch (const Error& e) {
    if (e.code() == ExitCode::stopped) throw;
    info("{}: kernels do not begin early, since that could not be measured: {}", plan->graph().name, e.what());
  }
  plan->put_prepared(execution.take_prepared());
  clock.end("early launch");
  return chosen;
}

plan::EarlyLaunch early_launch_of(const Plan& plan) {
  const auto* made = dynamic_cast<const PlanImpl*>(&plan);
  return made ? made->early_launch() : plan::EarlyLaunch();
}

}  // namespace smelt::run
