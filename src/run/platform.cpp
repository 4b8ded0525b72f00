#include "run/platform.h"

#include "base/error.h"
#include "device/cpu/caches.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "import/metadata.h"
#include "ops/cpu/onednn/gemm_code.h"
#include "ops/cuda/gpu.h"
#include "plan/machine.h"
#include "run/compile_only_backend.h"
#include "run/cuda_backend.h"
#include "run/host_fallback.h"

namespace smelt::run {

plan::Target target_of(const std::shared_ptr<Backend>& backend) {
  return {.is_host = backend->is_host(),
          .block_alignment = backend->block_alignment(),
          .caller_alignment = backend->caller_alignment(),
          .through_host_memory = [backend](const ops::BoundNode& node, std::unique_ptr<ops::Kernel> kernel) {
            return through_host_memory(node, std::move(kernel), backend);
          }};
}

Platform platform_for(const Options& options, const ModelFacts& model, plan::EmbeddedKernels embedded,
                      plan::CarriedChoices carried) {
  ops::Machine machine = plan::machine_for(options, model.tf32, embedded);
  // Half of each thread's cache is left to what kernels compute.
  const bool keeps_weights = model.constant_bytes <= machine.threads * device::cpu::core_cache_bytes() / 2;
  Options kept = options;
  std::shared_ptr<Backend> backend;
  if (!options.arch.empty()) {
    backend = compile_only_backend(options.arch);
    kept.tuning_level = 0;
  } else if (machine.gpu) {
    backend = cuda_backend(machine.gpu->device);
  } else {
    backend = host_backend();
  }
  auto cache = plan::open_cache(kept);
  const bool here = carried.device == tune::device_text(machine), has_kernels = !embedded.choices.empty();
  tune::PinnedChoices pinned = backend->is_host() ? tune::PinnedChoices() : std::move(embedded.choices);
  if (here && backend->is_host()) pinned = std::move(carried.choices);
  const auto there = tune::team_device(carried.device), own = tune::team_device(tune::device_text(machine));
  const bool other_threads = !here && backend->is_host() && there && own && there->processor == own->processor;
  if (kept.profiles.empty() && kept.shapes.empty()) kept.profiles = std::move(carried.profiles);
  auto context = std::make_shared<plan::Context>(std::move(machine), std::move(kept), target_of(backend), std::move(cache),
                                                 std::move(pinned), keeps_weights,
                                                 here || other_threads ? std::move(carried.timings) : std::string());
  // A kernel that a plan carries is of its steps: the same nodes have to be one.
  // And what was decided with another number of threads is better than estimates.
  const bool decided = here || (other_threads && !context->tuner.measures());
  if (decided || (has_kernels && !backend->is_host())) context->carried_apart = std::move(carried.apart);
  if (decided) context->carried_plain = std::move(carried.plain);
  return {std::move(context), backend};
}

OpeningInBackground::OpeningInBackground(const Options& options) {
  const bool here = options.arch.empty();
  const auto ordinal = here ? device::cuda::ordinal_of(options.device) : std::nullopt;
  if (!ordinal) return;
  threads_.emplace_back([this, ordinal] {
    try {
      device_ = device::cuda::Device::open(*ordinal);
    } catch (const Error&) {
    }
  });
  threads_.emplace_back([] {
    device::cuda::compiler_missing();
    device::cuda::cublaslt_missing();
    device::cuda::cudnn_missing();
  });
}

void begin_code(const Options& options, const std::string& model) {
  if (plan::on_gpu(options)) return;
  const auto metadata = metadata_of(model);
  const auto tactics = metadata.find("smelt.plan.tactics");
  if (tactics != metadata.end() && ops::onednn::names_gemm(tactics->second)) ops::onednn::begin_gemm_code();
}

}  // namespace smelt::run
