#include "plan/fused_choices.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "fuse/match/rewrite.h"
#include "plan/fused_parts.h"
#include "plan/known_choices.h"
#include "plan/not_compared.h"
#include "plan/tuning_progress.h"

namespace smelt::plan {
namespace {

/// What costs about the same either way stays fused: it needs less memory. Estimates are rougher than measurements.
constexpr double clearly_less = 0.95, clearly_less_estimated = 0.5;

/// A fused operator, and the rewrites without which its definition stays in parts. Those for which there are two lists are compared
/// with both: without what follows the operator, and in its plainest parts. An operator without a list is compared with its
/// plainest parts: so each is compared, also one that is new.
struct WayApart {
  std::string_view op;
  std::vector<std::string> without;
  std::string_view race = "fused or apart: ";  // the cache's name of the comparison, before the problem's
  double hopeful = 8;                          // most_hopeful() of levels 1 and 2, at most
};
const std::vector<WayApart>& ways_apart() {
  static const std::vector<std::string> norms = {"residual_norm", "modulated_norm", "norm_epilogue"};
  static const std::vector<WayApart> ways = {
      {"MatMul", {"matmul_epilogue"}},
      // Its kernels have the program as a pass of its own, and joined inputs, among their configurations where that may pay (ops/conv).
      {"Conv", {"conv_epilogue", "concat_conv"}, "fused or apart: ", 1},
      {"ConvTranspose", {"conv_epilogue"}, "fused or apart: ", 2},
      // Estimates of its parts are up to 1.5 times what they take; measuring those of all took half of a build's time more.
      {"QLinearConv", {"quantized_conv", "qlinear_operator", "dynamic_product", "qlinear_epilogue"}, "fused or apart: ", 2},
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

/// The number of the way for operators that have none in ways_apart(): a plan's file names it.
constexpr size_t plainest = 99;

/// No rewrite but those that tidy.
const WayApart& plainest_way() {
  static const WayApart way = [] {
    WayApart w;
    for (const fuse::Rewrite& r : fuse::pipeline())
      if (!r.tidies) w.without.emplace_back(r.name);
    return w;
  }();
  return way;
}

/// The ways of an operator, by their numbers.
std::vector<std::pair<size_t, const WayApart*>> ways_of(std::string_view op) {
  std::vector<std::pair<size_t, const WayApart*>> ways;
  for (size_t w = 0; w < ways_apart().size(); ++w)
    if (ways_apart()[w].op == op) ways.emplace_back(w, &ways_apart()[w]);
  if (ways.empty()) ways.emplace_back(plainest, &plainest_way());
  return ways;
}

/// JoinedProducts decides its own.
bool is_fused(const Step& step) {
  return step.kind == StepKind::kernel && step.node->domain == smelt_domain && step.node->op != "Reorder" &&
         step.node->op != "JoinedMatMul" && (step.part < 0 || step.of_joined);
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

/// The ways of a comparison; of the second kind where some parts were not timed, because the others took as long as the fused one.
const std::string all_timed[] = {"fused", "apart"}, some_timed[] = {"fused", "apart at least"};

/// What an earlier comparison says, by `times_by` its ways; nothing where none does.
std::optional<FusedTimes> known_by(const std::function<std::vector<tune::Timing>(std::span<const std::string>)>& times_by,
                                   double copies) {
  for (const bool at_least : {false, true})
    if (const std::vector<tune::Timing> raced = times_by(at_least ? some_timed : all_timed); !raced.empty())
      return FusedTimes{.fused_us = raced[0].min, .apart_us = raced[1].min + copies, .measured = true, .at_least = at_least};
  return std::nullopt;
}

/// What timings with another number of threads say of a way apart: nothing where they do not tell. `problems`: of the parts.
std::optional<FusedTimes> known_elsewhere(const Fused& fused, std::span<const PartProblem> problems, double copies,
                                          const std::string& race, tune::Tuner& tuner) {
  if (!tuner.knows_other_threads()) return std::nullopt;
  if (const auto raced = known_by([&](std::span<const std::string> ways) { return tuner.race_elsewhere(race, ways); }, copies))
    return raced;
  const auto one = tuner.expected(fused.offer);
  if (!one) return std::nullopt;
  tune::Bounds parts{copies, copies, copies};
  bool all = true;
  for (const PartProblem& p : problems) {
    const auto part = tuner.expected(p.offer);
    if (part) parts += *part;
    all = all && part;
  }
  if (parts.least < one->most && parts.us < tune::near_elsewhere * one->us) return std::nullopt;
  return FusedTimes{.fused_us = one->us, .apart_us = parts.us, .measured = true, .at_least = !all};
}

/// Times one way apart; true where it is clearly better than the fused node. Times of measurements that follow each other drift by
/// more than many fusions are worth, so that only a race decides.
bool wins(FusedTimes& times, const Parts& parts, const Fused& fused, const WayApart& way, Context& context, Measure measure) {
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
    ops::Offer offer = measure == Measure::no ? offer_unmeasured(node, tuner) : ops::offer(node, tuner.machine());
    const double us = tuner.estimate_us(offer);
    problems.push_back({std::move(node), std::move(offer), us});
    estimate += us;
  }
  estimate += copies;
  const int level = context.options.tuning_level;
  const double most = level < 3 ? std::min(way.hopeful, most_hopeful(level)) : never;
  // What runs anyhow is measured anyhow; its estimate may be the one that is off.
  const bool may_measure = measure != Measure::no && tuner.measures() && fused.estimate_us < never;
  const std::string race = std::string(way.race) + fused.offer.problem;
  if (may_measure) {
    auto known = known_by([&](std::span<const std::string> ways) { return tuner.known_race(race, ways); }, copies);
    if (!known) known = known_elsewhere(fused, problems, copies, race, tuner);
    if (known) {
      report(known->fused_us, known->apart_us, true, known->at_least);
      return known->apart_us < clearly_less * known->fused_us;
    }
  }
  const double fused_us = may_measure ? tuner.time_us(fused.node, fused.offer) : fused.estimate_us;
  if (!may_measure || estimate > most * std::max(fused_us, fused.estimate_us)) {
    report(fused.estimate_us, estimate, false, false);
    return estimate < clearly_less_estimated * fused.estimate_us;
  }
  std::ranges::stable_sort(problems, std::ranges::greater(), &PartProblem::estimate_us);
  double apart = copies;
  size_t timed = 0;
  for (; timed < problems.size() && apart < fused_us; ++timed)
    apart += tuner.time_us(problems[timed].node, problems[timed].offer);
  const auto in_parts = [&](std::span<const std::string> names, size_t count) {
    std::vector<tune::Tuner::Way> ways = {{names[0], {{&fused.node, &fused.offer}}}, {names[1], {}}};
    for (const PartProblem& p : std::span(problems).first(count)) ways[1].parts.push_back({&p.node, &p.offer});
    return ways;
  };
  if (apart >= fused_us) {
    const bool all = timed == problems.size();
    report(fused_us, apart, true, !all);
    // Later builds decide the same, whatever is timed again by then.
    tuner.keep_race(race, in_parts(all ? all_timed : some_timed, timed));
    return false;
  }
  const std::vector<tune::Timing> raced = tuner.race(race, in_parts(all_timed, problems.size()));
  if (raced.empty()) {  // the time is up
    report(fused.estimate_us, estimate, false, false);
    return false;
  }
  report(raced[0].min, raced[1].min + copies, true, false);
  return raced[1].min + copies < clearly_less * raced[0].min;
}

}  // namespace

std::shared_ptr<const FusedChoices::Decision> FusedChoices::decide(const Segment& s, const Step& step, Context& context,
                                                                   Measure measure) {
  tune::Tuner& tuner = context.tuner;
  auto decision = std::make_shared<Decision>();
  if (apart_.carries()) {
    decision->times = no_times(NotCompared::carried);
    for (const auto& [number, way] : ways_of(step.node->op)) {
      if (!apart_.carried(entry(number, *step.node)).value_or(false)) continue;
      decision->times = std::make_shared<const FusedTimes>(FusedTimes{.measured = false, .runs_apart = true});
      decision->without = way->without;
    }
    return decision;
  }
  const ops::BoundNode node = bound_node(s, step, &context.weights);
  ops::Offer offer;
  try {
    offer = measure == Measure::no ? offer_unmeasured(node, tuner) : ops::offer(node, tuner.machine());
  } catch (const Error&) {
    // No kernel takes it: any parts that have some are better.
  }
  if (!offer.problem.empty()) {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_problem_.find(offer.problem); at != by_problem_.end()) return at->second;
  }
  FusedTimes times;
  const Fused fused{node, offer, tuner.estimate_us(offer)};
  NotCompared why_not = NotCompared::no_parts;
  for (const auto& [number, way] : ways_of(step.node->op)) {
    if (times.runs_apart) break;
    try {
      const auto parts = parts_of(s, step, way->without, context);
      if (const auto* why = std::get_if<NotCompared>(&parts)) why_not = *why;
      const auto* made = std::get_if<Parts>(&parts);
      if (!made || !wins(times, *made, fused, *way, context, measure)) continue;
      times.runs_apart = true;
      decision->without = way->without;
      decision->way = number;
    } catch (const Error& e) {  // a part has no kernel, or no body for these shapes
      if (e.code() == ExitCode::stopped) throw;
      info("'{}' was not compared with its parts: {}", step.node->name, e.what());
    }
  }
  if (times.runs_apart)
    info("'{}' takes {:.1f} µs fused, {:.1f} µs apart: it runs apart", step.node->name, times.fused_us, times.apart_us);
  decision->times = times.apart_us > 0 ? std::make_shared<const FusedTimes>(times) : no_times(why_not);
  const std::lock_guard lock(mutex_);
  return offer.problem.empty() ? decision : by_problem_.try_emplace(offer.problem, decision).first->second;
}

void FusedChoices::apply(Segment& s, Context& context, Measure measure) {
  const bool may_measure = measure != Measure::no && context.tuner.measures();
  static const std::function<void(const Progress&)> nobody;
  TuningProgress progress(may_measure ? context.options.progress : nobody,
                          static_cast<int>(std::ranges::count_if(s.steps, is_fused)));
  int done = 0;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (Step& joined = s.steps[i];
        joined.kind == StepKind::kernel && joined.node->is("JoinedMatMul", smelt_domain) && !joined.fused)
      joined.fused = no_times(apart_.carries() ? NotCompared::carried : NotCompared::no_parts);
    // A convolution with the bias that followed it, casts in a row: what they were is not kept, and they compute no more than that.
    if (Step& one = s.steps[i]; (one.kind == StepKind::kernel || one.kind == StepKind::dynamic) &&
                                one.node->domain != smelt_domain && one.node->sources.size() > 1 && !one.fused && one.part < 0)
      one.fused = no_times(NotCompared::one_of_onnx);
    if (!is_fused(s.steps[i])) continue;
    ++done;
    std::shared_ptr<const Decision> decision;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = decided_.find({s.steps[i].id, s.steps[i].part}); at != decided_.end()) decision = at->second;
    }
    if (!decision) {
      decision = decide(s, s.steps[i], context, measure);
      const std::lock_guard lock(mutex_);
      decision = decided_.try_emplace({s.steps[i].id, s.steps[i].part}, decision).first->second;
      if (decision->times && decision->times->runs_apart) apart_.add(entry(decision->way, *s.steps[i].node));
      progress.done(s.steps[i].node->name, done);
    }
    if (!s.steps[i].fused) s.steps[i].fused = decision->times;
    if (!decision->times || !decision->times->runs_apart) continue;
    try {
      const auto made = parts_of(s, s.steps[i], decision->without, context);
      const auto* parts = std::get_if<Parts>(&made);
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
