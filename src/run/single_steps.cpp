#include "run/single_steps.h"

#include "ops/cuda/gpu.h"
#include "run/execution.h"

namespace smelt::run {
namespace {

const ExecutionImpl& made(const Execution& e) { return dynamic_cast<const ExecutionImpl&>(e); }

}  // namespace

void run_steps(Execution& execution, std::span<const size_t> steps) { dynamic_cast<ExecutionImpl&>(execution).run_steps(steps); }

std::string no_single_steps(const Execution& execution) { return made(execution).no_single_steps(); }

std::vector<size_t> recorded_work(const Execution& execution) { return made(execution).recorded_work(); }

std::shared_ptr<device::cuda::Device> device_of(const Execution& execution) {
  const auto& gpu = made(execution).plan().context().tuner.machine().gpu;
  return gpu ? gpu->device : nullptr;
}

}  // namespace smelt::run
