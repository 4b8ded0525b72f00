#include "run/planned.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cuda/gpu.h"
#include "plan/step_info.h"
#include "run/execution.h"
#include "run/plan.h"

namespace smelt::run {
namespace {

/// Addresses that nobody looks at: aligned as those of a device's memory, and never null.
class MadeUp {
 public:
  void* next() { return reinterpret_cast<void*>(at_ += uintptr_t{1} << 40); }

 private:
  uintptr_t at_ = 0;
};

std::vector<ops::PlannedLaunch> launches_of(const plan::Segment& s, const plan::Step& step) {
  MadeUp memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const plan::TensorIndex t : step.inputs) inputs.push_back(t == plan::absent ? nullptr : memory.next());
  for (const plan::TensorIndex t : step.outputs) outputs.push_back(t == plan::absent ? nullptr : memory.next());
  if (!step.at_most.empty()) outputs.push_back(memory.next());  // the count of what it finds
  ops::PlannedLaunches launches;                                // from here on nothing is launched
  if (step.kernel && !step.on_host) {
    step.kernel->run({inputs, outputs, memory.next()});
  } else if (step.kind == plan::StepKind::concat) {
    for (const plan::ConcatCopy::Part& part : step.concat->parts) launches.add_other("copy", step.concat->outer * part.chunk);
  } else if (step.kind == plan::StepKind::copy) {
    launches.add_other("copy", ops::storage_bytes(s.tensor(step.outputs[0])));
  }
  return std::move(launches.list);
}

class Seeing {
 public:
  explicit Seeing(PlannedRun& run) : run_(run) {}

  void see(const PlanImpl& plan, std::span<const Shape> inputs, const std::string& in) {
    if (const auto decided = plan.decided(inputs)) return see(*decided, inputs, in);
    std::vector<PlanImpl::Prepared> prepared = plan.take_prepared();
    const auto at = std::ranges::find_if(prepared, [&](const auto& p) { return std::ranges::equal(p.shapes, inputs); });
    const auto planned = at != prepared.end()
                             ? std::move(at->segment)
                             : std::make_unique<plan::PlannedSegment>(plan.planner().first(inputs, plan::Measure::no));
    const plan::Segment& s = planned->segment;
    std::vector<StepInfo> infos = plan::describe_steps(plan.graph(), s);
    for (size_t i = 0; i < s.steps.size(); ++i) {
      const plan::Step& step = s.steps[i];
      run_.steps.push_back({std::move(infos[i]), in, launches_of(s, step)});
      if (step.kind == plan::StepKind::control) see_branches(plan, s, step);
      if (step.kind == plan::StepKind::dynamic && !step.kernel && !step.on_host) unseen(step.node->name);
    }
    for (const ValueId v : planned->data_dependent) unseen(plan.graph().node(plan.graph().value(v).producer).name);
  }

 private:
  void unseen(const std::string& node) {
    if (std::ranges::find(run_.unseen, node) == run_.unseen.end()) run_.unseen.push_back(node);
  }

  void see_branches(const PlanImpl& plan, const plan::Segment& s, const plan::Step& step) {
    std::vector<Shape> shapes;
    for (size_t i = 1; i < step.inputs.size(); ++i) shapes.push_back(s.tensor(step.inputs[i]).shape);
    for (const char* branch : {"then_branch", "else_branch"})
      see(*plan.body(*step.node->get_graph(branch)), shapes, step.node->name + " " + branch);
  }

  PlannedRun& run_;
};

}  // namespace

PlannedRun planned_run(const Plan& plan, std::span<const Shape> inputs) {
  const auto& made = dynamic_cast<const PlanImpl&>(plan);
  const auto& gpu = made.context().tuner.machine().gpu;
  if (!gpu)
    throw Error("a plan of the processor launches no kernels of a GPU", "Name its architecture: --arch sm_90", ExitCode::usage);
  PlannedRun run{.arch = gpu->info.arch, .multiprocessors = gpu->info.multiprocessors};
  Seeing(run).see(made, inputs, "");
  return run;
}

PlannedRun planned_run(Execution& execution) {
  auto& made = dynamic_cast<ExecutionImpl&>(execution);
  PlannedRun run;
  const auto& gpu = made.plan().context().tuner.machine().gpu;
  if (!gpu) return run;
  run.arch = gpu->info.arch, run.multiprocessors = gpu->info.multiprocessors;
  const std::vector<StepInfo>& infos = made.steps();
  size_t at = 0;
  for (const SegmentState* state : made.segments())
    for (const plan::Step& step : state->segment.steps)
      run.steps.push_back({infos.at(at++), "", launches_of(state->segment, step)});
  return run;
}

}  // namespace smelt::run
