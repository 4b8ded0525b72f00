#include "plan/step_info.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ops/core/cost.h"
#include "ops/core/late_kernel.h"
#include "plan/buffers.h"
#include "plan/not_compared.h"
#include "plan/shapes.h"

namespace smelt::plan {
namespace {

std::string type_and_shape(const ops::BoundTensor& t) { return fmt::format("{}{}", name(t.type), to_string(t.shape)); }

/// A node's name; of a step that a plan puts between two nodes, what it does: "conv_out reordered".
std::string name_of(const Graph& g, const Segment& s, const Step& step) {
  if (!step.node->name.empty() || !step.node->is("Reorder", smelt_domain)) return step.node->name;
  const ValueId from = s.tensor(step.inputs[0]).value;
  return from == ValueId::none ? "reordered" : g.value(from).name + " reordered";
}

/// What stands for a problem where no kernel is chosen: "dynamic:NonZero:bool[300]".
std::string plain_problem(const Segment& s, const Step& step, std::string_view kind, std::string_view op) {
  std::vector<std::string> inputs;
  for (TensorIndex t : step.inputs) inputs.push_back(t == absent ? "" : type_and_shape(s.tensor(t)));
  return fmt::format("{}:{}:{}", kind, op, fmt::join(inputs, ","));
}

std::string full_op(const Node& node) { return node.domain.empty() ? node.op : fmt::format("{}.{}", node.domain, node.op); }

void add_sources(const Graph& g, const Node& node, StepInfo& info) {
  for (int32_t i : node.sources) {
    const SourceNode& source = g.sources()[static_cast<size_t>(i)];
    info.sources.push_back(source.name);
    info.scopes.push_back(source.scopes);
  }
}

/// Convolutions carry what a fused node is compared with among their own configurations: the program as a pass of its own, inputs
/// joined before (ops/conv).
std::optional<FusedTimes> times_of_configurations(const Step& step) {
  const bool has_times = step.fused && why_not(step.fused) == NotCompared::no;
  const std::optional<FusedTimes> compared = has_times ? std::optional(*step.fused) : std::nullopt;
  if (compared && (compared->measured || compared->runs_apart)) return compared;
  if (!step.choice || step.node->domain != smelt_domain) return compared;
  const auto is_apart = [](const tune::Timing& t) { return t.config.ends_with("program apart") || t.config.ends_with("joined"); };
  FusedTimes times;
  for (const tune::Timing& t : step.choice->timings) {
    double& least = is_apart(t) ? times.apart_us : times.fused_us;
    if (t.runs() && (least == 0 || t.median < least)) least = t.median;
    if (t.tactic == step.tactic && t.config == step.config) times.runs_apart = is_apart(t);
  }
  return times.fused_us > 0 && times.apart_us > 0 ? std::optional(times) : compared;
}

/// Bodies are planned like graphs; a run chooses kernels for the rest where there are any.
std::string dynamic_tactic(const Segment& s, const Step& step) {
  if (is_control_flow(*step.node)) return "plan";
  const bool strings =
      std::ranges::any_of(step.inputs, [&](TensorIndex t) { return t != absent && s.tensor(t).type == DType::string; });
  return !step.on_host && !strings && ops::has_late_kernel(*step.node) ? "cpu" : "reference";
}

}  // namespace

std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s) {
  std::vector<StepInfo> infos;
  const std::vector<StepMemory> held = held_by_step(s);
  for (const Step& step : s.steps) {
    StepInfo info{.memory = held[infos.size()]};
    if (step.node) {
      info.name = name_of(g, s, step);
      info.op = full_op(*step.node);
      add_sources(g, *step.node, info);
    }
    info.fused = times_of_configurations(step);
    if (const NotCompared why = why_not(step.fused); !info.fused && why != NotCompared::no)
      info.others.push_back({"its parts", "", std::string(text(why)), "not_compared"});
    info.part = step.part;
    info.region = step.region;
    switch (step.kernel ? StepKind::kernel : step.kind) {
      case StepKind::kernel:
        info.problem = step.problem;
        info.tactic = step.tactic;
        info.config = step.config;
        info.on_host = step.on_host;
        if (!step.choice) break;
        info.out_of_time = step.choice->out_of_time;
        info.decided_with = step.choice->with_threads;
        for (const tune::Timing& t : step.choice->timings) {
          if (t.tactic == step.tactic && t.config == step.config && t.is_sure())
            info.measured_us = t.min, info.measured_under_load = t.under_load > 0;
        }
        for (const tune::NotChosen& o : step.choice->others) info.others.push_back({o.tactic, o.config, o.reason, o.code, o.us});
        break;
      case StepKind::concat:
        info.problem = plain_problem(s, step, "copy", "Concat");
        info.tactic = "copy";
        break;
      case StepKind::copy:
        info.name = g.value(s.tensor(step.outputs[0]).value).name;
        info.op = "Copy";
        info.problem = plain_problem(s, step, "copy", "Identity");
        info.tactic = "copy";
        break;
      case StepKind::dynamic:
        info.problem = plain_problem(s, step, "dynamic", info.op);
        info.tactic = dynamic_tactic(s, step);
        info.on_host = step.on_host;
        break;
      case StepKind::control:
        info.problem = plain_problem(s, step, "control", info.op);
        info.tactic = "plan";
        break;
      case StepKind::view: break;
    }
    if (step.node) {
      const ops::Cost cost = ops::cost(bound_node(s, step, nullptr));
      info.bytes = cost.bytes;
      info.flops = cost.flops;
    } else {
      info.bytes = 2 * ops::storage_bytes(s.tensor(step.outputs[0]));
    }
    for (TensorIndex t : step.outputs)
      info.output_shapes.push_back(t == absent ? "" : (s.tensor(t).at_most ? "at most " : "") + type_and_shape(s.tensor(t)));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace smelt::plan
