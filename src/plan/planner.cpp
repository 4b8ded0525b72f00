#include "plan/planner.h"

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "plan/buffers.h"
#include "plan/kernel_choice.h"
#include "plan/layouts.h"
#include "plan/strided_views.h"

namespace smelt::plan {

Planner::Planner(Graph graph, std::shared_ptr<Context> context)
    : graph_(std::move(graph)), context_(std::move(context)), order_(graph_.topological()) {}

std::optional<std::vector<Shape>> fixed_shapes(const Graph& g) {
  std::vector<Shape> shapes;
  for (ValueId v : g.inputs()) {
    const auto& shape = g.value(v).shape;
    if (!shape || !is_static(*shape)) return std::nullopt;
    shapes.push_back(to_shape(*shape));
  }
  return shapes;
}

void Planner::choose_layouts(Segment& s, StageClock& clock) const {
  tune::Tuner& tuner = context_->tuner;
  const Segment plain = context_->target.is_host && tuner.measures() ? s : Segment();
  assign_layouts(s, tuner, layouts_.plain());
  if (plain.steps.empty()) return;
  clock.end("planning");
  const bool changes = layouts_.decide(s, plain, tuner, &context_->weights, context_->options.progress);
  clock.end("tuning");
  if (!changes) return;
  s = plain;
  assign_layouts(s, tuner, layouts_.plain());
}

PlannedSegment Planner::plan(Environment env, std::span<const CacheForm> caches, const Segment* before) const {
  const tune::Tuner& tuner = context_->tuner;
  const Target& target = context_->target;
  const bool optimize = context_->options.optimize;
  const ops::Threads threads(context_->team);
  StageClock clock(*context_->stages);
  PlannedSegment planned;
  Segment& s = planned.segment;
  s = plan_segment(graph_, order_, env, !target.is_host);
  if (optimize) choose_layouts(s, clock);
  if (optimize && target.is_host) {
    clock.end("planning");
    fused_.apply(s, *context_);
    clock.end(tuner.measures() ? "tuning" : "planning");
  }
  place_caches(s, caches);
  if (optimize && (!target.is_host || !caches.empty())) assign_views(s, tuner);
  assign_buffers(s, optimize);
  if (!target.is_host) find_alignments(s, target.block_alignment, target.caller_alignment);
  clock.end("planning");
  choose_kernels(s, *context_, buckets_, ReusableKernels(before));
  clock.restart();
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
  if (env.left > 0) planned.after = std::make_shared<const Environment>(std::move(env));
  clock.end("planning");
  return planned;
}

PlannedSegment Planner::first(std::span<const Shape> inputs, std::span<const CacheForm> caches, const Segment* before) const {
  Environment env(graph_, order_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = graph_.inputs()[i];
    env.set(v, graph_.value(v).type, inputs[i]);
  }
  PlannedSegment planned = plan(std::move(env), caches, before);
  if (!caches.empty() && (planned.after || !planned.data_dependent.empty()))
    fail_usage("sizes in '{}' depend on data: it takes no caches", graph_.name);
  return planned;
}

}  // namespace smelt::plan
