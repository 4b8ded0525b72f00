#include "run/save.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "fuse/rewriter.h"
#include "import/export.h"
#include "import/import.h"
#include "ops/core/expand.h"
#include "plan/embedded_kernels.h"
#include "run/early_launch.h"
#include "run/plan.h"

namespace smelt {
namespace {

bool fixed_shapes(const Plan& plan) {
  for (const TensorInfo& i : plan.inputs())
    if (!is_static(i.shape)) return false;
  return plan.splits().empty();
}

/// Binds inputs of the plan's own shapes, and runs nothing: a plan that this machine has no memory for is not written.
void check_memory(const Plan& plan) {
  std::vector<Tensor> inputs;
  for (const TensorInfo& i : plan.inputs()) {
    try {
      inputs.push_back(Tensor::zeros(i.type, to_shape(i.shape)));
    } catch (const Error& e) {
      throw e.at(fmt::format("input '{}'", i.name));
    }
  }
  plan.execution()->bind(inputs);
}

/// A line a step: what it runs with.
std::string tactics_of(const Plan& plan) {
  std::string text;
  for (const StepInfo& s : plan.steps())
    text += fmt::format("{}\t{}\t{}{}{}\n", s.name, s.problem, s.tactic, s.config.empty() ? "" : " ", s.config);
  return text;
}

/// Throws Error (usage) where the plan has none, or where which they are is known only once inputs are bound.
plan::EmbeddedKernels embedded_kernels(const Plan& of) {
  const auto* made = dynamic_cast<const run::PlanImpl*>(&of);
  if (!made || !made->context().tuner.machine().gpu) fail_usage("a plan for the processor has no compiled kernels to embed");
  if (made->steps().empty())
    throw Error("which kernels a plan needs is known where all its inputs have fixed shapes only", "Give --shapes.",
                ExitCode::usage);
  if (const auto splits = made->splits(); !splits.empty())
    warn("what follows '{}' has sizes that depend on data: its kernels are not embedded, but compiled where the plan runs",
         splits.front());
  return plan::kernels_of(made->planner(), made->steps());
}

}  // namespace

void check_destination(const std::filesystem::path& model, const std::filesystem::path& plan, const Options& options,
                       const SaveOptions& save) {
  check_spares_model(plan, model);
  if (save.embed_kernels && options.device == "cpu" && options.arch.empty())
    throw Error("--embed-kernels: a plan for the processor has no compiled kernels", "Give --arch or --device.", ExitCode::usage);
  const AtomicFile writable(plan);
  if (save.copy_weights || folder_of(model) == folder_of(plan)) return;
  int64_t bytes = 0;
  const std::vector<DataRange> data = external_data_of(model);
  for (const DataRange& r : data) bytes += r.size;
  if (bytes > 0) fail_far_weights(plan, bytes, data.front().file);
}

Saved save_plan(const Plan& plan, const std::filesystem::path& path, const SaveOptions& options) {
  ExportOptions out;
  out.copy_weights = options.copy_weights;
  out.expand = [](const Graph& g, NodeId n) { return ops::expand(g, n); };
  out.metadata["smelt.plan.device"] = plan.device();
  const auto* made = dynamic_cast<const run::PlanImpl*>(&plan);
  const bool on_host = made && made->backend().is_host();
  if (made && plan.options().optimize) out.metadata[plan_rewritten_key] = fuse::text_of(plan::fuse_options(plan.options()));
  if (on_host || (made && fixed_shapes(plan))) {
    plan::CarriedChoices carried = made->planner().choices();
    carried.device = plan.device();
    if (on_host) carried.profiles = plan.options().profiles;
    if (on_host) carried.timings = made->context().carried_timings + tune::to_text(made->context().tuner.decisive());
    if (!on_host) carried.choices.clear(), carried.plain.reset();
    plan::write_choices(carried, out.metadata);
  }
  plan::write_early_launch(run::early_launch_of(plan), out.metadata);
  if (fixed_shapes(plan)) {
    if (plan.options().arch.empty()) check_memory(plan);  // a GPU that is not here has none to ask for
    out.metadata["smelt.plan.tactics"] = tactics_of(plan);
  }
  if (on_host && options.packed_weights)
    for (ops::WeightStore::Lasting& f : made->context().weights.lasting())
      out.forms.push_back({std::move(f.constant), std::move(f.name), std::move(f.form)});
  Saved saved;
  if (options.embed_kernels) {
    const plan::EmbeddedKernels kernels = embedded_kernels(plan);
    plan::write_kernels(kernels, out.metadata);
    out.metadata["smelt.plan.tactics"] = tactics_of(plan);
    saved.kernels = static_cast<int64_t>(kernels.cubins.size());
    for (const auto& [key, cubin] : kernels.cubins) saved.kernel_bytes += static_cast<int64_t>(cubin->bytes.size());
  }
  const ExportedData data = export_model(plan.graph(), path, out);
  saved.data = data.file;
  saved.data_bytes = data.bytes;
  saved.packed_bytes = data.form_bytes;
  return saved;
}

}  // namespace smelt
