#include "plan/fused_choices.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "fuse/match/rewrite.h"
#include "ops/core/expand.h"
#include "plan/shapes.h"
#include "plan/tuning_progress.h"

namespace smelt::plan {
namespace {

/// What costs about the same either way stays fused: it needs less memory. Estimates are rougher than measurements.
constexpr double clearly_less = 0.95, clearly_less_estimated = 0.5;

/// A fused operator, and the rewrites without which its definition stays in parts. Those for which there are two lists are compared
/// with both: without what follows the operator, and in its plainest parts.
struct WayApart {
  std::string_view op;
  std::vector<std::string> without;
  std::string_view race = "fused or apart: ";  // the cache's name of the comparison, before the problem's
};
const std::vector<WayApart>& ways_apart() {
  static const std::vector<std::string> norms = {"residual_norm", "modulated_norm", "norm_epilogue"};
  static const std::vector<WayApart> ways = {
      {"MatMul", {"matmul_epilogue"}},
      {"QLinearMatMul", {"quantized_matmul", "qlinear_operator", "dynamic_product", "qlinear_epilogue"}},
      {"Norm", norms},
      {"Norm",
       {norms[0], norms[1], norms[2], "recognise_rms_norm", "recognise_layer_norm", "recognise_group_norm", "norm_operator"},
       "fused or in plainest parts: "},
      {"Attention", {"attention", "attention_operator"}},
      {"RotaryEmbedding", {"recognise_rotary"}},
      {"Reduce", {"reduce_region"}},
      {"Pointwise",
       {"pointwise_region", "recognise_gelu", "recognise_silu", "recognise_hard_swish", "recognise_swiglu", "batch_norm"}},
  };
  return ways;
}

bool is_fused(const Step& step) {
  return step.kind == StepKind::kernel && step.node->domain == smelt_domain && (step.part < 0 || step.of_joined) &&
         std::ranges::find(ways_apart(), std::string_view(step.node->op), &WayApart::op) != ways_apart().end();
}

/// Parts that a fused node can run as: their graph, planned for the node's tensors.
struct Parts {
  Graph graph;
  Segment segment;
};

bool is_image(const ops::BoundTensor& t) { return t.layout == ops::Layout::nhwc; }

/// Nothing where the definition is the node itself or has sizes that only a run knows, or where parts would have to know of layouts.
std::optional<Parts> parts_of(const Segment& s, const Step& step, std::vector<std::string> without, const Context& context) {
  Graph around;
  Node copy = *step.node;
  copy.sources.clear();
  bool images = false;
  const auto enter = [&](const std::vector<TensorIndex>& tensors, std::vector<ValueId>& values) {
    values.clear();
    for (TensorIndex t : tensors) {
      if (t == absent) {
        values.push_back(ValueId::none);
        continue;
      }
      const BoundValue& v = s.tensor(t);
      if (!v.strides.empty()) return false;
      images = images || is_image(v);
      values.push_back(around.add_value("", v.type, to_sym(v.shape)));
    }
    return true;
  };
  if (!enter(step.inputs, copy.inputs) || !enter(step.outputs, copy.outputs)) return std::nullopt;
  const bool pointwise = copy.op == "Pointwise";
  if (images && !pointwise) return std::nullopt;
  for (ValueId v : copy.inputs)
    if (v != ValueId::none) around.add_input(v);
  const std::string op = copy.op;
  const NodeId n = around.add_node(std::move(copy));
  Parts parts;
  parts.graph = ops::expand(around, n);

  // The inputs that are there, in their order.
  std::vector<TensorIndex> given;
  std::ranges::copy_if(step.inputs, std::back_inserter(given), [](TensorIndex t) { return t != absent; });
  const auto planned = [&](Environment& env, const std::vector<NodeId>& order) {
    for (size_t i = 0; i < given.size(); ++i) {
      const BoundValue& t = s.tensor(given[i]);
      const ValueId v = parts.graph.inputs()[i];
      env.set(v, t.type, t.shape);
      env[v].value = t.constant;
    }
    return plan_segment(parts.graph, order, env, false);
  };
  {
    const std::vector<NodeId> order = parts.graph.topological();
    Environment env(parts.graph, order);
    planned(env, order);
    if (env.left > 0) return std::nullopt;
    for (size_t v = 0; v < env.values.size(); ++v)
      if (env.values[v].known) parts.graph.set_shape(ValueId{static_cast<int32_t>(v)}, to_sym(env.values[v].shape));
  }
  fuse::Options options = fuse_options(context.options);
  std::ranges::copy(without, std::back_inserter(options.skip));
  options.verify_each = false;
  fuse::run(parts.graph, options);
  const std::vector<NodeId> order = parts.graph.topological();
  Environment env(parts.graph, order);
  parts.segment = planned(env, order);
  if (env.left > 0) return std::nullopt;

  const auto kernels = std::ranges::count(parts.segment.steps, StepKind::kernel, &Step::kind);
  const bool same = kernels == 1 && std::ranges::any_of(parts.segment.steps, [&](const Step& p) {
                      return p.kind == StepKind::kernel && p.node->op == op && p.node->domain == smelt_domain;
                    });
  const bool known = std::ranges::all_of(parts.segment.steps, [](const Step& p) {
    return p.kind == StepKind::kernel || p.kind == StepKind::view || p.kind == StepKind::concat;
  });
  const size_t outputs = static_cast<size_t>(std::ranges::count_if(step.outputs, [](TensorIndex t) { return t != absent; }));
  if (same || !known || parts.segment.results.size() != outputs) return std::nullopt;
  if (!images) return parts;
  // Element by element; what has the image's axes lies as it does.
  const size_t rank = s.tensor(step.outputs[0]).shape.size();
  for (size_t t = 0; t < parts.segment.tensors.size(); ++t) {
    BoundValue& v = parts.segment.tensors[t];
    const auto input = std::ranges::find(parts.graph.inputs(), v.value);
    if (input != parts.graph.inputs().end())
      v.layout = s.tensor(given[static_cast<size_t>(input - parts.graph.inputs().begin())]).layout;
    else if (!v.constant.valid() && v.shape.size() == rank)
      v.layout = ops::Layout::nhwc;
  }
  if (std::ranges::any_of(parts.segment.steps, [](const Step& p) { return p.kind != StepKind::kernel; })) return std::nullopt;
  return parts;
}

/// The steps of the parts instead of the step at `at`.
void replace(Segment& s, size_t at, const Parts& parts, const std::shared_ptr<const FusedTimes>& times) {
  const Step fused = s.steps[at];
  std::map<ValueId, TensorIndex> known;
  size_t next = 0;
  for (TensorIndex t : fused.inputs)
    if (t != absent) known[parts.graph.inputs()[next++]] = t;
  next = 0;
  for (TensorIndex t : fused.outputs)
    if (t != absent) known[parts.graph.outputs()[next++]] = t;
  std::vector<TensorIndex> tensors;
  for (const BoundValue& v : parts.segment.tensors) {
    const auto same = v.value == ValueId::none ? known.end() : known.find(v.value);
    if (same != known.end()) {
      tensors.push_back(same->second);
      continue;
    }
    BoundValue own = v;
    own.value = ValueId::none;
    own.fixed_layout = false;
    tensors.push_back(add_tensor(s, std::move(own)));
  }
  std::vector<Step> steps;
  for (const Step& part : parts.segment.steps) {
    Step step = part;
    Node node = *part.node;
    node.sources = fused.node->sources;
    node.name = fused.node->name;
    step.node = std::make_shared<const Node>(std::move(node));
    step.id = fused.id;
    step.part = std::max(fused.part, 0) + static_cast<int>(steps.size());
    step.fused = times;
    for (auto* list : {&step.inputs, &step.outputs})
      for (TensorIndex& t : *list)
        if (t != absent) t = tensors[static_cast<size_t>(t)];
    steps.push_back(std::move(step));
  }
  s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
  s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(steps.begin()),
                 std::make_move_iterator(steps.end()));
}

/// What a plan carries of a node that runs apart: which way, and its name.
std::string entry(size_t way, const Node& node) { return fmt::format("{} {}", way, node.name); }

constexpr double never = std::numeric_limits<double>::infinity();

/// A concatenation's copies; its inputs may come to lie in it later, so this is the most.
double copy_us(const Segment& s, const Step& step, const tune::Tuner& tuner) {
  constexpr double bytes_per_us = 4e3;
  const auto moved = 2.0 * static_cast<double>(ops::storage_bytes(s.tensor(step.outputs[0])));
  return moved / bytes_per_us / tuner.machine().threads;
}

/// A part's problem, with what is needed to measure it.
struct PartProblem {
  ops::BoundNode node;
  ops::Offer offer;
  double estimate_us;
};

/// How much longer than the fused one parts may be estimated at, and be measured nonetheless. Estimates of both were off by 4 in opposite
/// directions, for a sum over an inner axis of what is computed in it and for a product that exp follows.
double most_hopeful(int level) { return level == 1 ? 1.5 : level == 2 ? 8 : never; }

/// The fused node.
struct Fused {
  const ops::BoundNode& node;
  const ops::Offer& offer;
  double estimate_us;  // infinite: no kernel takes it
};

/// Times one way apart; true where it is clearly better than the fused node. Times of measurements that follow each other drift by
/// more than many fusions are worth, so that only a race decides.
bool wins(FusedTimes& times, const Parts& parts, const Fused& fused, std::string_view race, Context& context, bool may_measure) {
  tune::Tuner& tuner = context.tuner;
  const auto report = [&](double fused_us, double apart_us, bool measured, bool at_least) {
    if (times.apart_us == 0 || (measured && !times.measured) || (measured == times.measured && apart_us < times.apart_us))
      times = {fused_us, apart_us, measured, at_least};
  };
  std::vector<PartProblem> problems;
  double copies = 0, estimate = 0;
  for (const Step& step : parts.segment.steps) {
    if (step.kind == StepKind::concat) copies += copy_us(parts.segment, step, tuner);
    if (step.kind != StepKind::kernel) continue;
    ops::BoundNode node = bound_node(parts.segment, step, &context.weights);
    ops::Offer offer = ops::offer(node, tuner.machine());
    const double us = tuner.estimate_us(offer);
    problems.push_back({std::move(node), std::move(offer), us});
    estimate += us;
  }
  estimate += copies;
  const bool hopeful = estimate <= most_hopeful(context.options.tuning_level) * fused.estimate_us;
  if (!may_measure || !hopeful || fused.estimate_us == never) {
    report(fused.estimate_us, estimate, false, false);
    return estimate < clearly_less_estimated * fused.estimate_us;
  }
  const double fused_us = tuner.time_us(fused.node, fused.offer);
  std::ranges::stable_sort(problems, std::ranges::greater(), &PartProblem::estimate_us);
  double apart = copies;
  size_t timed = 0;
  for (; timed < problems.size() && apart < fused_us; ++timed)
    apart += tuner.time_us(problems[timed].node, problems[timed].offer);
  if (apart >= fused_us) {
    report(fused_us, apart, true, timed < problems.size());
    return false;
  }
  std::vector<tune::Tuner::Way> ways = {{"fused", {{&fused.node, &fused.offer}}}, {"apart", {}}};
  for (const PartProblem& p : problems) ways[1].parts.push_back({&p.node, &p.offer});
  const std::vector<tune::Timing> raced = tuner.race(std::string(race) + fused.offer.problem, ways);
  if (raced.empty()) return false;
  report(raced[0].min, raced[1].min + copies, true, false);
  return raced[1].min + copies < clearly_less * raced[0].min;
}

}  // namespace

std::shared_ptr<const FusedChoices::Decision> FusedChoices::decide(const Segment& s, const Step& step, Context& context,
                                                                   bool may_measure) {
  tune::Tuner& tuner = context.tuner;
  auto decision = std::make_shared<Decision>();
  if (apart_.carries()) {
    for (size_t way = 0; way < ways_apart().size(); ++way) {
      if (!apart_.carried(entry(way, *step.node)).value_or(false)) continue;
      decision->times = std::make_shared<const FusedTimes>(FusedTimes{.measured = false, .runs_apart = true});
      decision->without = ways_apart()[way].without;
    }
    return decision;
  }
  const ops::BoundNode node = bound_node(s, step, &context.weights);
  ops::Offer offer;
  try {
    offer = ops::offer(node, tuner.machine());
  } catch (const Error&) {
    // No kernel takes it: any parts that have some are better.
  }
  if (!offer.problem.empty()) {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_problem_.find(offer.problem); at != by_problem_.end()) return at->second;
  }
  FusedTimes times;
  const Fused fused{node, offer, tuner.estimate_us(offer)};
  for (size_t w = 0; w < ways_apart().size() && !times.runs_apart; ++w) {
    const WayApart& way = ways_apart()[w];
    if (way.op != step.node->op) continue;
    try {
      const std::optional<Parts> parts = parts_of(s, step, way.without, context);
      if (!parts || !wins(times, *parts, fused, way.race, context, may_measure)) continue;
      times.runs_apart = true;
      decision->without = way.without;
      decision->way = w;
    } catch (const Error& e) {  // a part has no kernel, or no body for these shapes
      if (e.code() == ExitCode::stopped) throw;
      info("'{}' was not compared with its parts: {}", step.node->name, e.what());
    }
  }
  if (times.runs_apart)
    info("'{}' takes {:.1f} µs fused, {:.1f} µs apart: it runs apart", step.node->name, times.fused_us, times.apart_us);
  if (times.apart_us > 0) decision->times = std::make_shared<const FusedTimes>(times);
  const std::lock_guard lock(mutex_);
  return offer.problem.empty() ? decision : by_problem_.try_emplace(offer.problem, decision).first->second;
}

void FusedChoices::apply(Segment& s, Context& context, bool may_measure) {
  may_measure = may_measure && context.tuner.measures();
  static const std::function<void(const Progress&)> nobody;
  TuningProgress progress(may_measure ? context.options.progress : nobody,
                          static_cast<int>(std::ranges::count_if(s.steps, is_fused)));
  int done = 0;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_fused(s.steps[i])) continue;
    ++done;
    std::shared_ptr<const Decision> decision;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = decided_.find({s.steps[i].id, s.steps[i].part}); at != decided_.end()) decision = at->second;
    }
    if (!decision) {
      decision = decide(s, s.steps[i], context, may_measure);
      const std::lock_guard lock(mutex_);
      decision = decided_.try_emplace({s.steps[i].id, s.steps[i].part}, decision).first->second;
      if (decision->times && decision->times->runs_apart) apart_.add(entry(decision->way, *s.steps[i].node));
      progress.done(s.steps[i].node->name, done);
    }
    if (!s.steps[i].fused) s.steps[i].fused = decision->times;
    if (!decision->times || !decision->times->runs_apart) continue;
    try {
      const std::optional<Parts> parts = parts_of(s, s.steps[i], decision->without, context);
      if (!parts) continue;
      replace(s, i, *parts, decision->times);
      i += parts->segment.steps.size() - 1;
    } catch (const Error& e) {  // parts that have no body for these shapes
      if (e.code() == ExitCode::stopped) throw;
    }
  }
  progress.finish();
}

}  // namespace smelt::plan
