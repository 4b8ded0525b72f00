#include "plan/layout_costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/file.h"
#include "ops/reorder/around.h"
#include "plan/image_roles.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

constexpr double copied_bytes_per_us = 4e3;            // by one thread
constexpr double least_estimated_us = 20;              // that estimates have to save
constexpr int64_t most_race_bytes = int64_t{1} << 30;  // of a race's images and weights

/// What part of the other way's time shows that this one is faster.
double clearly_less(LayoutTimes::By by) {
  switch (by) {
    case LayoutTimes::By::estimates: return 0.5;
    case LayoutTimes::By::race: return 0.98;
    case LayoutTimes::By::race_under_load: return 0.8;
    case LayoutTimes::By::sums: break;
  }
  return 0.83;
}

/// A concatenation's copies: inputs lie in a whole where they follow each other in memory, and slices of a channels-last one where
/// their makers take strides.
double copies_us(const Segment& s, const Step& step, const ops::Machine& machine) {
  const auto whole = concat_shape(s, step);
  if (whole && whole->outer == 1) return 0;
  double moved = 0;
  for (TensorIndex t : step.inputs)
    if (t != absent && s.tensor(t).strides.empty()) moved += 2.0 * static_cast<double>(ops::storage_bytes(s.tensor(t)));
  return moved / copied_bytes_per_us / machine.threads;
}

/// The tensor that each view's bytes are.
std::map<TensorIndex, TensorIndex> sources(const Segment& s) {
  std::map<TensorIndex, TensorIndex> source;
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::view) continue;
    const auto seen = source.find(step.inputs[0]);
    source[step.outputs[0]] = seen == source.end() ? step.inputs[0] : seen->second;
  }
  return source;
}

}  // namespace

std::string_view text(LayoutTimes::By by) {
  switch (by) {
    case LayoutTimes::By::estimates: return "estimated";
    case LayoutTimes::By::race: return "raced";
    case LayoutTimes::By::race_under_load: return "raced beside other work";
    case LayoutTimes::By::sums: break;
  }
  return "added up";
}

bool plain_wins(const LayoutTimes& t) {
  const bool saves = t.by != LayoutTimes::By::estimates || t.channels_last - t.plain > least_estimated_us;
  return saves && t.plain < clearly_less(t.by) * t.channels_last;
}

std::string layout_race(const std::vector<std::string>& channels_last, const std::vector<std::string>& plain) {
  std::string all;
  for (const auto* problems : {&channels_last, &plain}) {
    for (const std::string& p : *problems) all += p + '\n';
    all += '\n';
  }
  return fmt::format("channels-last or plain: {} steps or {}, {:016x}", channels_last.size(), plain.size(),
                     hash_bytes(all.data(), static_cast<int64_t>(all.size())));
}

double LayoutCosts::us(const Segment& s, const Step& step) {
  if (step.kind == StepKind::concat) return copies_us(s, step, tuner_.machine());
  if (step.kind != StepKind::kernel) return 0;
  const ops::BoundNode node = bound_node(s, step, weights_);
  return tuner_.time_us(node, ops::offer(node, tuner_.machine()));
}

double LayoutCosts::estimate_us(const Segment& s, const Step& step) const {
  if (step.kind == StepKind::concat) return copies_us(s, step, tuner_.machine());
  if (step.kind != StepKind::kernel) return 0;
  return tuner_.estimate_us(ops::offer(bound_node(s, step, weights_), tuner_.machine()));
}

double LayoutCosts::least_plain_us(const Segment& s, const Step& step, double other_us) {
  if (step.kind != StepKind::kernel) return us(s, step);
  const ops::BoundNode node = bound_node(s, step, weights_);
  ops::Offer offer = ops::offer(node, tuner_.machine());
  const double best = tuner_.estimate_us(offer);
  std::erase_if(offer.candidates, [&](const ops::Candidate& c) {
    return c.config.ends_with(ops::reordered_suffix) || c.tactic == "reference" || !tuner_.allows(c.tactic);
  });
  constexpr double far_behind = 3;
  if (offer.candidates.empty() || tuner_.estimate_us(offer) > far_behind * best) return other_us;
  return std::min(other_us, tuner_.time_us(node, offer));
}

double LayoutCosts::most_reorder_us(const Segment& s, const Step& step) const {
  if (step.kind != StepKind::kernel || !is_reorder(*step.node)) return 0;
  const auto bytes = static_cast<double>(ops::storage_bytes(s.tensor(step.inputs[0])));
  return 2 * bytes / copied_bytes_per_us / tuner_.machine().threads;
}

LayoutCosts::Way LayoutCosts::way(std::string name, const StepsOf& side) {
  Way w;
  w.way.name = std::move(name);
  const std::map<TensorIndex, TensorIndex> source = sources(side.s);
  std::set<TensorIndex> counted;
  for (const Step* step : side.steps) {
    if (step->kind == StepKind::concat) w.copies_us += copies_us(side.s, *step, tuner_.machine());
    if (step->kind != StepKind::kernel) continue;
    const ops::BoundNode& node = w.nodes.emplace_back(bound_node(side.s, *step, weights_));
    const ops::Offer& offer = w.offers.emplace_back(ops::offer(node, tuner_.machine()));
    w.problems.push_back(offer.problem);
    tune::Tuner::Way::Part part{&node, &offer};
    for (const auto* tensors : {&step->inputs, &step->outputs}) {
      for (TensorIndex t : *tensors) {
        const auto seen = source.find(t);
        const bool own = t == absent || side.s.tensor(t).constant.valid();
        part.memory.push_back(own ? -1 : seen == source.end() ? t : seen->second);
        if (t != absent && counted.insert(t).second) w.bytes += ops::storage_bytes(side.s.tensor(t));
      }
    }
    w.way.parts.push_back(std::move(part));
  }
  return w;
}

std::optional<LayoutTimes> LayoutCosts::race_elsewhere(const StepsOf& channels_last, const StepsOf& plain) {
  if (!tuner_.knows_other_threads()) return std::nullopt;
  const Way first = way("channels-last", channels_last), second = way("plain", plain);
  const std::string ways[] = {first.way.name, second.way.name};
  const std::vector<tune::Timing> timings = tuner_.race_elsewhere(layout_race(first.problems, second.problems), ways);
  if (timings.empty()) return std::nullopt;
  return LayoutTimes{timings[0].min + first.copies_us, timings[1].min + second.copies_us, LayoutTimes::By::race};
}

std::optional<LayoutTimes> LayoutCosts::race(const StepsOf& channels_last, const StepsOf& plain) {
  const Way first = way("channels-last", channels_last), second = way("plain", plain);
  if (first.bytes + second.bytes > most_race_bytes) return std::nullopt;
  const tune::Tuner::Way ways[] = {first.way, second.way};
  const std::vector<tune::Timing> timings = tuner_.race(layout_race(first.problems, second.problems), ways);
  if (timings.empty()) return std::nullopt;
  const bool under_load = timings[0].under_load > 0 || timings[1].under_load > 0;
  return LayoutTimes{timings[0].min + first.copies_us, timings[1].min + second.copies_us,
                     under_load ? LayoutTimes::By::race_under_load : LayoutTimes::By::race};
}

}  // namespace smelt::plan
