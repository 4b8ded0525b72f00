#include "plan/first_layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "ops/conv/stem.h"
#include "plan/priced.h"

namespace smelt::plan {
namespace {

/// One kernel needs less memory than several, and their launches are not in their times; estimates are rougher than measurements.
constexpr double clearly_less = 0.98, clearly_less_estimated = 0.9;

bool is_first_layer(const Step& step) { return step.kind == StepKind::kernel && ops::conv::is_stem(*step.node); }

bool has_kernel(const ops::Offer& offer, const tune::Tuner& tuner) {
  return std::ranges::any_of(offer.candidates,
                             [&](const ops::Candidate& c) { return c.tactic == "stem" && tuner.allows(c.tactic); });
}

/// The steps of the parts instead of the step at `at`.
void replace(Segment& s, size_t at, const ops::conv::StemParts& parts, const std::shared_ptr<const FusedTimes>& times) {
  const Step whole = s.steps[at];
  const auto tensor = [&](const ops::BoundTensor& t) {
    BoundValue v;
    static_cast<ops::BoundTensor&>(v) = t;
    return add_tensor(s, std::move(v));
  };
  std::vector<Step> steps;
  const auto add = [&](const std::shared_ptr<const Node>& of, std::vector<TensorIndex> inputs, std::vector<TensorIndex> outputs) {
    Node node = *of;
    node.sources = whole.node->sources;
    node.name = whole.node->name;
    Step step;
    step.id = whole.id;
    step.node = std::make_shared<const Node>(std::move(node));
    step.inputs = std::move(inputs), step.outputs = std::move(outputs);
    step.part = static_cast<int>(steps.size());
    step.fused = times;
    steps.push_back(std::move(step));
  };
  std::vector<TensorIndex> inputs = whole.inputs, outputs = whole.outputs;
  if (parts.image) {
    inputs[0] = tensor(parts.converted.outputs[0]);
    add(parts.image, {whole.inputs[0]}, {inputs[0]});
  }
  if (parts.pool) outputs = {tensor(parts.convolved.outputs[0])};
  add(parts.convolution, std::move(inputs), outputs);
  if (parts.pool) add(parts.pool, outputs, whole.outputs);
  s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
  s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(steps.begin()),
                 std::make_move_iterator(steps.end()));
}

}  // namespace

void FirstLayers::split_refused(Segment& s, Context& context) const {
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_first_layer(s.steps[i])) continue;
    ops::BoundNode node = bound_node(s, s.steps[i], &context.weights);
    if (!context.target.is_host) {
      ops::BoundNode asked = node;
      asked.outputs[0].layout = ops::Layout::nhwc;
      if (has_kernel(priced(std::move(asked), context).offer, context.tuner)) continue;
    }
    replace(s, i, ops::conv::StemParts(node, ops::Layout::plain), nullptr);
  }
}

std::shared_ptr<const FusedTimes> FirstLayers::decide(const Segment& s, const Step& step, Context& context, bool may_measure) {
  const std::string entry = fmt::format("first layer {}", step.node->name);
  if (const auto apart = apart_.carried(entry))
    return std::make_shared<const FusedTimes>(FusedTimes{.measured = false, .runs_apart = *apart});
  const ops::BoundNode node = bound_node(s, step, &context.weights);
  const ops::conv::StemParts parts(node);
  std::vector<Priced> all = {priced(node, context)};
  const std::string problem = all[0].offer.problem;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_problem_.find(problem); known != by_problem_.end() && !problem.empty()) {
      if (known->second->runs_apart) apart_.add(entry);
      return known->second;
    }
  }
  all.push_back(priced(parts.convolved, context));
  if (parts.image) all.push_back(priced(parts.converted, context));
  if (parts.pool) all.push_back(priced(parts.pooled, context));
  FusedTimes times;
  if (!has_kernel(all[0].offer, context.tuner)) {  // not as the layouts have it
    times = {.measured = false, .runs_apart = true};
  } else if (context.tuner.has_pinned()) {  // as the plan's build decided
    times = {.measured = false, .runs_apart = !context.tuner.pinned_for(problem)};
  } else {
    const Prices p = prices(all, context, may_measure);
    times = {.fused_us = p.us[0], .apart_us = std::accumulate(p.us.begin() + 1, p.us.end(), 0.0), .measured = p.measured};
    times.runs_apart = times.fused_us >= (p.measured ? clearly_less : clearly_less_estimated) * times.apart_us;
    info("the first layer '{}' takes {:.1f} µs as one kernel, {:.1f} µs as {}: it runs {}", step.node->name, times.fused_us,
         times.apart_us, all.size() - 1, times.runs_apart ? "apart" : "as one");
  }
  if (times.runs_apart) apart_.add(entry);
  const std::lock_guard lock(mutex_);
  return by_problem_.try_emplace(problem, std::make_shared<const FusedTimes>(times)).first->second;
}

void FirstLayers::apply(Segment& s, Context& context, bool may_measure) {
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_first_layer(s.steps[i])) continue;
    std::shared_ptr<const FusedTimes> times;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = decided_.find(s.steps[i].id); at != decided_.end()) times = at->second;
    }
    if (!times) {
      times = decide(s, s.steps[i], context, may_measure);
      const std::lock_guard lock(mutex_);
      times = decided_.try_emplace(s.steps[i].id, times).first->second;
    }
    s.steps[i].fused = times;
    if (times->runs_apart) replace(s, i, ops::conv::StemParts(bound_node(s, s.steps[i], &context.weights)), times);
  }
}

}  // namespace smelt::plan
