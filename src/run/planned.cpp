#include "run/planned.h"

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "run/buffers.h"
#include "run/caches.h"
#include "run/kernels.h"
#include "run/layouts.h"
#include "run/plan.h"
#include "run/strided_views.h"

namespace smelt::run {
namespace {

std::vector<Stretch> stretches_of(const Segment& s) {
  std::vector<Stretch> all;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (all.empty() || all.back().on_host != s.steps[i].on_host) all.push_back({i, i, s.steps[i].on_host});
    all.back().end = i + 1;
  }
  return all;
}

}  // namespace

std::unique_ptr<Planned> plan_next(const PlanImpl& plan, Environment env, std::span<const CacheForm> caches,
                                   const Segment* before) {
  const ops::Threads threads(plan.shared().tuner.machine().threads);
  StageClock clock(*plan.shared().stages);
  auto planned = std::make_unique<Planned>();
  Segment& s = planned->segment;
  const Backend& backend = *plan.shared().backend;
  s = plan_segment(plan.graph(), plan.order(), env, !backend.is_host());
  const bool optimize = plan.shared().options.optimize;
  if (optimize) assign_layouts(s, plan.shared().tuner);
  place_caches(s, caches);
  if (optimize && (!backend.is_host() || !caches.empty())) assign_views(s, plan.shared().tuner);
  assign_buffers(s, optimize);
  if (!backend.is_host()) find_alignments(s, backend.block_alignment(), backend.caller_alignment());
  clock.end("planning");
  choose_kernels(s, plan.shared(), plan.buckets(), KnownSteps(before));
  clock.restart();
  share_in_place(s);
  place_buffers(s, backend.block_alignment());
  planned->stretches = stretches_of(s);
  planned->twins.resize(s.externals.size());
  planned->own.resize(s.results.size());
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::dynamic) continue;
    for (ValueId v : step.node->outputs) {
      if (v != ValueId::none) planned->found.push_back(v);
    }
  }
  for (ValueId v : plan.graph().outputs()) {
    if (env[v].value.valid() && !plan.graph().value(v).is_constant()) planned->known_outputs.emplace(v, env[v].value);
  }
  if (env.left > 0) planned->after = std::make_shared<const Environment>(std::move(env));
  clock.end("planning");
  return planned;
}

std::unique_ptr<Planned> plan_first(const PlanImpl& plan, std::span<const Shape> inputs, std::span<const CacheForm> caches,
                                    const Segment* before) {
  Environment env(plan.graph(), plan.order());
  for (size_t i = 0; i < inputs.size(); ++i) {
    env.set(plan.graph().inputs()[i], plan.inputs()[i].type, inputs[i]);
  }
  auto planned = plan_next(plan, std::move(env), caches, before);
  if (!caches.empty() && (planned->after || !planned->found.empty()))
    fail_usage("sizes in '{}' depend on data: it takes no caches", plan.graph().name);
  return planned;
}

}  // namespace smelt::run
