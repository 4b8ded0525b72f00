#include "run/carried.h"

#include <sstream>

#include "base/base64.h"
#include "base/error.h"
#include "base/log.h"
#include "ops/core/tactic_names.h"
#include "run/plan.h"

namespace smelt::run {
namespace {

namespace cuda = device::cuda;

constexpr std::string_view gpu_key = "smelt.plan.gpu", tactics_key = "smelt.plan.tactics", kernel_prefix = "smelt.plan.kernel.";

/// Lines of "node, problem, tactic and configuration" between tabs. A node's name may hold anything, also tabs and ends of lines.
tune::PinnedChoices choices_in(const std::string& tactics) {
  tune::PinnedChoices choices;
  std::istringstream in(tactics);
  for (std::string line; std::getline(in, line);) {
    const size_t last = line.rfind('\t');
    if (last == line.npos || last == 0) continue;
    const size_t first = line.rfind('\t', last - 1);
    if (first == line.npos) continue;
    const std::string tactic = line.substr(last + 1);
    const size_t space = std::min(tactic.find(' '), tactic.size());
    choices[line.substr(first + 1, last - first - 1)] = {tactic.substr(0, space),
                                                         tactic.substr(std::min(space + 1, tactic.size()))};
  }
  return choices;
}

/// The metadata's entry, which goes; empty where there is none.
std::string taken(std::map<std::string, std::string>& metadata, std::string_view key) {
  auto node = metadata.extract(std::string(key));
  return node ? std::move(node.mapped()) : "";
}

}  // namespace

Carried read_carried(std::map<std::string, std::string>& metadata) {
  Carried carried;
  std::istringstream gpu(taken(metadata, gpu_key));
  const std::string tactics = taken(metadata, tactics_key);
  gpu >> carried.arch >> carried.multiprocessors;
  const bool any = gpu && carried.multiprocessors > 0 && carried.multiprocessors < 10000;
  for (auto at = metadata.lower_bound(std::string(kernel_prefix)); at != metadata.end() && at->first.starts_with(kernel_prefix);
       at = metadata.erase(at)) {
    const std::string key = at->first.substr(kernel_prefix.size());
    const auto file = from_base64(at->second);
    auto cubin = file ? cuda::from_file(*file, key) : nullptr;
    if (cubin)
      carried.cubins.emplace(key, std::move(cubin));
    else
      warn("the plan's compiled kernel {} is damaged", key);
  }
  if (!any) return {};
  carried.choices = choices_in(tactics);
  return carried;
}

void write_carried(const Carried& carried, std::map<std::string, std::string>& metadata) {
  metadata[std::string(gpu_key)] = fmt::format("{} {}", carried.arch, carried.multiprocessors);
  for (const auto& [key, cubin] : carried.cubins)
    metadata[std::string(kernel_prefix) + key] = to_base64(cuda::to_file(*cubin, key));
}

Carried carried_by(const Plan& of) {
  const auto* plan = dynamic_cast<const PlanImpl*>(&of);
  const auto* shared = plan ? &plan->shared() : nullptr;
  if (!shared || !shared->tuner.machine().gpu) fail_usage("a plan for the processor has no compiled kernels to embed");
  if (plan->steps().empty())
    throw Error("which kernels a plan needs is known where all its inputs have fixed shapes only", "Give --shapes.",
                ExitCode::usage);
  if (const auto splits = plan->splits(); !splits.empty())
    warn("what follows '{}' has sizes that depend on data: its kernels are not embedded, but compiled where the plan runs",
         splits.front());
  // The plan once more, with the same choices, from a store that is empty: what that holds in the end is what the plan needs.
  ops::Machine machine = shared->tuner.machine();
  ops::Gpu gpu = *machine.gpu;
  const auto beneath = gpu.cubins;
  gpu.cubins = std::make_shared<cuda::CubinStore>(
      "", [beneath](const cuda::Source& source, std::string_view arch) { return *beneath->get(source, arch); });
  machine.gpu = std::make_shared<ops::Gpu>(std::move(gpu));
  Carried carried{machine.gpu->info.arch, machine.gpu->info.multiprocessors, {}, {}};
  for (const StepInfo& s : plan->steps())
    if (!s.on_host) carried.choices[s.problem] = {s.tactic, s.config};
  Options options = shared->options;
  options.progress = nullptr;
  const auto filter = tune::TacticFilter::parse(options.tactics, ops::tactic_names);
  const auto again = std::make_shared<PlanImpl>(
      clone(plan->graph()), std::shared_ptr<PlanImpl::Shared>(new PlanImpl::Shared{
                                {machine, 0, filter, tune::Cache::in_memory(), carried.choices}, {}, options, shared->backend}));
  again->prepare();
  carried.cubins = machine.gpu->cubins->in_memory();
  return carried;
}

bool take_kernels(Carried& carried, ops::Gpu& gpu) {
  if (carried.arch == gpu.info.arch) {
    gpu.cubins->carry(carried.cubins);
    gpu.info.multiprocessors = carried.multiprocessors;
    return true;
  }
  if (!carried.arch.empty())
    warn("the plan carries kernels for {}, which {} ({}) does not run: they are chosen and compiled anew", carried.arch,
         gpu.info.name, gpu.info.arch);
  carried = {};
  return false;
}

}  // namespace smelt::run
