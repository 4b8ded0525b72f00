#include "plan/embedded_kernels.h"

#include <sstream>

#include "base/base64.h"
#include "base/error.h"
#include "base/log.h"
#include "base/value_of.h"
#include "plan/carried_choices.h"
#include "plan/planner.h"

namespace smelt::plan {
namespace {

namespace cuda = device::cuda;

constexpr std::string_view gpu_key = "smelt.plan.gpu", tactics_key = "smelt.plan.tactics", kernel_prefix = "smelt.plan.kernel.";

/// The metadata's entry, which is removed; empty where there is none.
std::string extract(std::map<std::string, std::string>& metadata, std::string_view key) {
  auto node = metadata.extract(std::string(key));
  return node ? std::move(node.mapped()) : "";
}

}  // namespace

EmbeddedKernels read_kernels(std::map<std::string, std::string>& metadata) {
  EmbeddedKernels kernels;
  std::istringstream gpu(extract(metadata, gpu_key));
  const std::string tactics = extract(metadata, tactics_key);
  gpu >> kernels.arch >> kernels.multiprocessors;
  const bool any = gpu && kernels.multiprocessors > 0 && kernels.multiprocessors < 10000;
  for (auto at = metadata.lower_bound(std::string(kernel_prefix)); at != metadata.end() && at->first.starts_with(kernel_prefix);
       at = metadata.erase(at)) {
    const std::string key = at->first.substr(kernel_prefix.size());
    const auto file = from_base64(at->second);
    auto cubin = file ? cuda::from_file(*file, key) : nullptr;
    if (cubin)
      kernels.cubins.emplace(key, std::move(cubin));
    else
      warn("the plan's compiled kernel {} is damaged", key);
  }
  if (!any) return {};
  kernels.choices = choices_in(tactics);
  return kernels;
}

void write_kernels(const EmbeddedKernels& kernels, std::map<std::string, std::string>& metadata) {
  metadata[std::string(gpu_key)] = fmt::format("{} {}", kernels.arch, kernels.multiprocessors);
  for (const auto& [key, cubin] : kernels.cubins)
    metadata[std::string(kernel_prefix) + key] = to_base64(cuda::to_file(*cubin, key));
}

EmbeddedKernels kernels_of(const Planner& planner, std::span<const StepInfo> steps) {
  const Context& context = planner.context();
  ops::Machine machine = context.tuner.machine();
  // A store of its own that begins empty: what it holds in the end is what the plan needs.
  ops::Gpu gpu = *machine.gpu;
  const auto beneath = gpu.cubins;
  gpu.cubins = std::make_shared<cuda::CubinStore>(
      "", [beneath](const cuda::Source& source, std::string_view arch) { return *beneath->get(source, arch); });
  machine.gpu = std::make_shared<ops::Gpu>(std::move(gpu));
  EmbeddedKernels kernels{machine.gpu->info.arch, machine.gpu->info.multiprocessors, {}, {}};
  for (const StepInfo& s : steps)
    if (!s.on_host) kernels.choices[s.problem] = {s.tactic, s.config};
  Options options = context.options;
  options.tuning_level = 0;
  options.progress = nullptr;
  const auto again = std::make_shared<Context>(machine, options, context.target, tune::Cache::in_memory(), kernels.choices);
  again->carried_apart = planner.choices().apart;
  Planner(clone(planner.graph()), again).first(value_of(planner.fixed_shapes(), "the shape of an input"), Measure::no);
  kernels.cubins = machine.gpu->cubins->in_memory();
  return kernels;
}

bool take_kernels(EmbeddedKernels& kernels, ops::Gpu& gpu) {
  if (kernels.arch == gpu.info.arch) {
    gpu.cubins->carry(kernels.cubins);
    gpu.info.multiprocessors = kernels.multiprocessors;
    return true;
  }
  if (!kernels.arch.empty())
    warn("the plan carries kernels for {}, which {} ({}) does not run: they are chosen and compiled anew", kernels.arch,
         gpu.info.name, gpu.info.arch);
  kernels = {};
  return false;
}

}  // namespace smelt::plan
