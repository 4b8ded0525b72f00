#include "plan/planner.h"

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "plan/buffers.h"
#include "plan/concat_kernels.h"
#include "plan/finalists.h"
#include "plan/kernel_choice.h"
#include "plan/layouts.h"
#include "plan/strided_views.h"

namespace smelt::plan {

Planner::Planner(Graph graph, std::shared_ptr<Context> context)
    : graph_(std::move(graph)), context_(std::move(context)), order_(graph_.topological()) {
  if (const auto& carried = context_->carried_apart) apart_.carry(*carried);
  const auto& carried_plain = context_->carried_plain;
  if (!carried_plain) return;
  std::set<NodeId> plain;
  for (NodeId n : order_)
    if (carried_plain->contains(graph_.node(n).name)) plain.insert(n);
  layouts_.carry(std::move(plain));
}

CarriedChoices Planner::choices() const {
  CarriedChoices all;
  all.plain.emplace();
  for (NodeId n : layouts_.plain()) all.plain->insert(graph_.node(n).name);
  all.apart = apart_.entries();
  const std::lock_guard lock(chosen_mutex_);
  all.choices = chosen_;
  return all;
}

std::optional<std::vector<Shape>> fixed_shapes(const Graph& g) {
  std::vector<Shape> shapes;
  for (ValueId v : g.inputs()) {
    const auto& shape = g.value(v).shape;
    if (!shape || !is_static(*shape)) return std::nullopt;
    shapes.push_back(to_shape(*shape));
  }
  return shapes;
}

void Planner::choose_layouts(Segment& s, bool may_measure, AcceptedLayouts* accepted, StageClock& clock) const {
  tune::Tuner& tuner = context_->tuner;
  const Segment plain = may_measure && context_->target.is_host && !layouts_.carries() ? s : Segment();
  assign_layouts(s, tuner, layouts_.plain(), accepted);
  if (!plain.steps.empty()) {
    clock.end("planning");
    const bool changes = layouts_.decide(s, plain, tuner, &context_->weights, context_->options.progress);
    clock.end(tuner.measures() ? "tuning" : "planning");
    if (changes) {
      s = plain;
      assign_layouts(s, tuner, layouts_.plain(), accepted);
    }
  }
  if (context_->target.is_host) layouts_.tell(s, tuner);
}

PlannedSegment Planner::plan(const Environment& known, Measure measure, std::span<const CacheForm> caches, const Segment* before,
                             GrownShapes* grown) const {
  const bool remembers = context_->target.is_host && !accepted_.empty();
  if (!context_->target.is_host || !context_->remembers) return plan(known, measure, caches, before, grown, nullptr);
  try {
    return plan(known, measure, caches, before, grown, &accepted_);
  } catch (const Error& e) {
    // What other extents accepted, these may not.
    if (!remembers || e.code() != ExitCode::unsupported) throw;
    return plan(known, measure, caches, before, grown, nullptr);
  }
}

PlannedSegment Planner::plan(Environment env, Measure measure, std::span<const CacheForm> caches, const Segment* before,
                             GrownShapes* grown, AcceptedLayouts* accepted) const {
  const tune::Tuner& tuner = context_->tuner;
  const Target& target = context_->target;
  const bool optimize = context_->options.optimize;
  const ops::Threads threads(context_->team);
  StageClock clock(*context_->stages);
  Segment s = plan_segment(graph_, order_, env, !target.is_host);
  const bool may_measure = measure != Measure::no;
  first_layers_.split_refused(s, *context_);
  if (optimize) choose_layouts(s, may_measure, accepted, clock);
  if (optimize && target.is_host) {
    clock.end("planning");
    fused_.apply(s, *context_, measure);
    clock.end(may_measure && tuner.measures() ? "tuning" : "planning");
  }
  if (!target.is_host) first_layers_.apply(s, *context_, may_measure);
  joined_.apply(s, *context_, may_measure, optimize, accepted);
  if (optimize && !target.is_host) {
    gated_.apply(s, *context_, may_measure);
    normed_.apply(s, *context_, may_measure);
    cached_.apply(s, caches, *context_, may_measure);
    rotary_.apply(s, *context_, may_measure);
  }
  if (optimize && target.is_host) fused_.apply(s, *context_, measure);  // the products
  clock.end(may_measure && tuner.measures() ? "tuning" : "planning");
  place_caches(s, caches);
  if (optimize && (!target.is_host || !caches.empty())) assign_views(s, tuner);
  clock.end("planning");
  const bool may_grow = grown && target.is_host && !may_measure && caches.empty() && grown->wants(s, env);
  if (may_grow) grown->keep(s, env);
  PlannedSegment planned = placed(std::move(s), env, measure, before);
  if (env.left > 0) planned.after = std::make_shared<const Environment>(std::move(env));
  return planned;
}

PlannedSegment Planner::placed(Segment made, const Environment& env, Measure measure, const Segment* before) const {
  const Target& target = context_->target;
  StageClock clock(*context_->stages);
  PlannedSegment planned;
  Segment& s = planned.segment = std::move(made);
  assign_buffers(s, context_->options.optimize);
  if (!target.is_host) copy_parts_by_kernels(s, context_->tuner);
  if (!target.is_host) find_alignments(s, target.block_alignment, target.caller_alignment);
  clock.end("planning");
  choose_kernels(s, *context_, buckets_, similar_, ReusableKernels(before), measure);
  if (measure != Measure::no) note_chosen(s);
  clock.restart();
  if (std::ranges::any_of(s.steps, [](const Step& step) { return !step.finalists.empty(); }))
    planned.unplaced = std::make_shared<Segment>(s);
  share_in_place(s);
  place_buffers(s, target.block_alignment);
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::dynamic) continue;
    for (ValueId v : step.node->outputs) {
      if (v != ValueId::none) planned.data_dependent.push_back(v);
    }
  }
  for (ValueId v : graph_.outputs()) {
    if (env[v].value.valid() && !graph_.value(v).is_constant()) planned.known_outputs.emplace(v, env[v].value);
  }
  clock.end("planning");
  return planned;
}

void Planner::note_chosen(const Segment& s) const {
  const std::lock_guard lock(chosen_mutex_);
  for (const Step& step : s.steps)
    if (step.kernel && !step.on_host) chosen_[step.problem] = {step.tactic, step.config};
}

void Planner::settle(PlannedSegment& planned, const ModelChoices& chosen,
                     const std::map<std::string, std::vector<std::string>>& said) const {
  if (!planned.unplaced) return;
  Segment s = std::move(*std::exchange(planned.unplaced, nullptr));
  for (Step& step : s.steps) {
    if (step.finalists.empty()) continue;
    const auto at = chosen.find(step.problem);
    if (at != chosen.end()) {
      const auto why = said.find(step.problem);
      take_finalist(step, at->second, why == said.end() ? std::span<const std::string>() : why->second);
    }
    step.finalists.clear();
    keep_choice(s, step, buckets_, similar_);
  }
  note_chosen(s);
  share_in_place(s);
  place_buffers(s, context_->target.block_alignment);
  planned.segment = std::move(s);
}

PlannedSegment Planner::first(std::span<const Shape> inputs, Measure measure, std::span<const CacheForm> caches,
                              const Segment* before, GrownShapes* grown) const {
  if (grown && caches.empty() && measure == Measure::no && context_->remembers) {
    try {
      const ops::Threads threads(context_->team);
      if (const Segment* s = grown->grow(graph_, order_, inputs)) return placed(*s, grown->environment(), measure, before);
    } catch (const Error& e) {
      if (e.code() == ExitCode::stopped) throw;
      grown->forget();  // what is wrong is said below
    }
  }
  Environment env(graph_, order_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = graph_.inputs()[i];
    env.set(v, graph_.value(v).type, inputs[i]);
  }
  PlannedSegment planned = plan(env, measure, caches, before, grown);
  if (!caches.empty() && (planned.after || !planned.data_dependent.empty()))
    fail_usage("sizes in '{}' depend on data: it takes no caches", graph_.name);
  return planned;
}

}  // namespace smelt::plan
