#include "run/kernels.h"

#include <fmt/ranges.h>

#include <chrono>
#include <set>

#include "base/error.h"
#include "ops/cost.h"

namespace smelt::run {
namespace {

std::string type_and_shape(const ops::BoundTensor& t) { return fmt::format("{}{}", name(t.type), to_string(t.shape)); }

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

}  // namespace

void choose_kernels(Segment& s, tune::Tuner& tuner, ops::WeightStore* weights,
                    const std::function<void(const Progress&)>& progress) {
  struct Open {
    Step* step;
    ops::BoundNode node;
    ops::Offer offer;
  };
  std::vector<Open> open;
  std::set<std::string> problems;
  for (Step& step : s.steps) {
    if (step.kind != StepKind::kernel) continue;
    try {
      ops::BoundNode node = bound_node(s, step, weights);
      ops::Offer offer = ops::offer(node, tuner.machine());
      problems.insert(offer.problem);
      open.push_back({&step, std::move(node), std::move(offer)});
    } catch (const Error& e) {
      throw e.at(ops::label(*step.node));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto total = static_cast<int>(problems.size());
  for (Open& o : open) {
    Step& step = *o.step;
    try {
      step.choice = tuner.choose(o.node, o.offer);
      const ops::Candidate& chosen = o.offer.candidates[step.choice.candidate];
      step.problem = o.offer.problem;
      step.tactic = chosen.tactic;
      step.config = chosen.config;
      step.kernel = chosen.prepare();
    } catch (const Error& e) {
      throw e.at(ops::label(*step.node));
    }
    if (!problems.erase(step.problem) || !progress) continue;
    const int done = total - static_cast<int>(problems.size());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    progress({"tuning", step.problem, done, total, seconds, seconds / done * (total - done)});
  }
}

std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s) {
  std::vector<StepInfo> infos;
  for (const Step& step : s.steps) {
    StepInfo info;
    if (step.node) {
      info.name = step.node->name;
      info.op = full_op(*step.node);
      add_sources(g, *step.node, info);
    }
    switch (step.kind) {
      case StepKind::kernel:
        info.problem = step.problem;
        info.tactic = step.tactic;
        info.config = step.config;
        for (const tune::Timing& t : step.choice.timings) {
          if (t.tactic == step.tactic && t.config == step.config) info.measured_us = t.median;
        }
        for (const tune::NotChosen& o : step.choice.others) info.others.push_back({o.tactic, o.config, o.reason});
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
        info.tactic = "reference";
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
    for (TensorIndex t : step.outputs) info.output_shapes.push_back(t == absent ? "" : type_and_shape(s.tensor(t)));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace smelt::run
