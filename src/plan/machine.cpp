#include "plan/machine.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/value_of.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/asked_tactics.h"
#include "ops/cuda/gpu.h"
#include "plan/context.h"

namespace smelt::plan {
namespace {

/// Where compiled kernels are kept; nowhere, with a warning, where that cannot be made.
std::filesystem::path kernels_folder(const Options& options) {
  if (!options.use_cache) return {};
  try {
    return cache_dir(options.cache_dir) / "kernels";
  } catch (const Error& e) {
    warn("{}; compiled kernels are not kept. {}", e.what(), e.next());
    return {};
  }
}

void add_gpu(ops::Machine& machine, const Options& options, const tune::TacticFilter& filter, bool tf32,
             EmbeddedKernels& embedded) {
  const bool here = options.arch.empty();
  ops::Gpu gpu = here ? *ops::open_gpu(value_of(device::cuda::ordinal_of(options.device), "the number of a CUDA device"),
                                       kernels_folder(options))
                      : *ops::gpu_of_arch(options.arch, kernels_folder(options));
  gpu.tf32 = tf32;
  gpu.nondeterministic = filter.asks_for(ops::nondeterministic);
  gpu.caches->get<ops::AskedTactics>().cute = filter.asks_for(ops::cute);
  const bool has_kernels = take_kernels(embedded, gpu);
  if (!has_kernels) device::cuda::check_compiler(gpu.info.arch, gpu.info.driver);
  machine.gpu = std::make_shared<ops::Gpu>(std::move(gpu));
  const bool compiles = !has_kernels || device::cuda::compiler_missing().empty();
  machine.versions += ", " + (compiles ? device::cuda::compiler_version() : "no NVRTC");
  if (device::cuda::cublaslt_missing().empty()) machine.versions += ", " + device::cuda::cublaslt_version();
  if (device::cuda::cudnn_missing().empty()) machine.versions += ", " + device::cuda::cudnn_version();
  if (!here) return;
  machine.versions += fmt::format(", driver {}", machine.gpu->info.driver);
  machine.gpu->device->set_limit(options.memory_limit);
}

}  // namespace

ops::Machine machine_for(const Options& options, bool tf32, EmbeddedKernels& embedded) {
  int threads = options.threads;
  if (options.pool) {
    // oneDNN's kernels may wait for one another across threads, so that each needs one of its own.
    const int most = options.pool->threads() + 1;
    if (threads > most)
      fail_usage("{} threads: the pool given has {}, and with the calling thread that is {}", threads, most - 1, most);
    if (threads == 0) threads = most;
  }
  ops::Machine machine = ops::this_machine(threads);
  const tune::TacticFilter filter = tactic_filter(options);
  if (on_gpu(options))
    add_gpu(machine, options, filter, tf32, embedded);
  else
    embedded = {};
  return machine;
}

}  // namespace smelt::plan
