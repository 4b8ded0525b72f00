// What Nsight Compute watches where `smelt profile` has it count: a plan is built and run once, then these of its steps are launched
// one by one between cuProfilerStart and cuProfilerStop.
#include "cli/common.h"
#include "device/cuda/counters.h"
#include "run/single_steps.h"

namespace smelt::cli {

Action add_launch(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::vector<size_t> steps;
    bool optimized = false;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  add_input_options(app, *a);
  app.add_option("--steps", a->steps, "Which, from 0")->delimiter(',');
  app.add_flag("--optimized", a->optimized, "The optimised plan's");
  app.group("");  // for smelt itself
  return [a] {
    const report::Prepared p = report::prepare(a->subject(), a->optimized);
    p.execution->run();
    const device::cuda::Watched watched(run::device_of(*p.execution));
    run::run_steps(*p.execution, a->steps);
    return 0;
  };
}

}  // namespace smelt::cli
