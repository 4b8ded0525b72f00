#include "plan/layout_regions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/log.h"
#include "plan/layout_costs.h"
#include "plan/tuning_progress.h"

namespace smelt::plan {
namespace {

/// Sums of times that were measured one by one drift: plain images as far behind as this by them are not raced.
constexpr double far_apart = 1.2;
/// What part of a region reorders, and plain kernels that are faster, may win at least, or it is not looked at any further.
constexpr double worth_a_look = 0.03;

/// Sets of tensors that steps connect.
class Groups {
 public:
  explicit Groups(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

/// Channels-last images, what lies as part of one, and views of their memory.
std::vector<bool> channels_last_tensors(const Segment& s) {
  std::vector<bool> is(s.tensors.size());
  for (size_t t = 0; t < s.tensors.size(); ++t) is[t] = s.tensors[t].layout == ops::Layout::nhwc || !s.tensors[t].strides.empty();
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::view || step.id != NodeId::none) continue;
    for (const auto* tensors : {&step.inputs, &step.outputs})
      for (TensorIndex t : *tensors) is[static_cast<size_t>(t)] = true;
  }
  return is;
}

/// The steps around channels-last tensors, by region.
std::vector<std::vector<const Step*>> regions(const Segment& s) {
  Groups groups(s.tensors.size());
  const std::vector<bool> is_channels_last = channels_last_tensors(s);
  std::vector<std::pair<const Step*, TensorIndex>> touching;
  for (const Step& step : s.steps) {
    TensorIndex first = absent;
    for (const auto* tensors : {&step.inputs, &step.outputs}) {
      for (TensorIndex t : *tensors) {
        if (t == absent || !is_channels_last[static_cast<size_t>(t)]) continue;
        if (first == absent) first = t;
        groups.join(static_cast<size_t>(first), static_cast<size_t>(t));
      }
    }
    if (first != absent) touching.emplace_back(&step, first);
  }
  std::map<size_t, std::vector<const Step*>> by_group;
  for (const auto& [step, tensor] : touching) by_group[groups.find(static_cast<size_t>(tensor))].push_back(step);
  std::vector<std::vector<const Step*>> all;
  for (auto& [group, steps] : by_group) all.push_back(std::move(steps));
  return all;
}

/// A region's nodes, and their steps over plain images.
struct Region {
  StepsOf channels_last, plain;
};

/// What both ways take, looked at as closely as the difference demands: of plain images the least, where they are not worth more.
LayoutTimes times_of(const Region& region, LayoutCosts& costs, TuningProgress& progress) {
  const auto watched = [&](const Step& step, double us) {
    progress.one_more(step.node->name);
    return us;
  };
  const Segment &s = region.channels_last.s, &plain = region.plain.s;
  LayoutTimes t;
  double most = 0;
  std::map<NodeId, double> each;
  for (const Step* step : region.channels_last.steps) {
    const double us = watched(*step, costs.us(s, *step));
    each[step->id] += us;
    t.channels_last += us;
    most += std::max(us, costs.most_reorder_us(s, *step));
  }
  std::vector<const Step*> by_time = region.plain.steps;
  std::ranges::stable_sort(by_time, std::ranges::greater(), [&](const Step* step) { return each[step->id]; });
  for (const Step* step : by_time) {
    if (t.plain >= (1 - worth_a_look) * most)
      return {.channels_last = t.channels_last, .plain = std::max(t.plain, t.channels_last), .at_least = true};
    t.plain += watched(*step, costs.least_plain_us(plain, *step, each[step->id]));
  }
  t.plain = 0;
  for (const Step* step : by_time) {
    t.at_least = t.plain >= far_apart * most;
    if (t.at_least) return t;
    t.plain += watched(*step, costs.us(plain, *step));
  }
  return costs.race(region.channels_last, region.plain).value_or(t);
}

/// The same by the estimates of the kernels that these choose.
LayoutTimes estimated_times_of(const Region& region, const LayoutCosts& costs) {
  LayoutTimes t{.by = LayoutTimes::By::estimates};
  for (const Step* step : region.channels_last.steps) t.channels_last += costs.estimate_us(region.channels_last.s, *step);
  for (const Step* step : region.plain.steps) t.plain += costs.estimate_us(region.plain.s, *step);
  return t;
}

}  // namespace

std::set<NodeId> LayoutChoices::plain() const {
  const std::lock_guard lock(mutex_);
  return plain_;
}

bool LayoutChoices::carries() const {
  const std::lock_guard lock(mutex_);
  return carried_;
}

void LayoutChoices::carry(std::set<NodeId> plain) {
  const std::lock_guard lock(mutex_);
  plain_ = std::move(plain);
  carried_ = true;
}

bool LayoutChoices::decide(const Segment& channels_last, const Segment& plain, tune::Tuner& tuner, ops::WeightStore* weights,
                           const std::function<void(const Progress&)>& progress) {
  if (carries()) return false;
  LayoutCosts costs(tuner, weights);
  TuningProgress told(progress, static_cast<int>(channels_last.steps.size() + plain.steps.size()));  // at most so many
  std::map<NodeId, const Step*> plain_steps;
  for (const Step& step : plain.steps)
    if (step.id != NodeId::none) plain_steps.emplace(step.id, &step);
  bool changes = false;
  for (std::vector<const Step*>& steps : regions(channels_last)) {
    Region region{{channels_last, std::move(steps)}, {plain, {}}};
    std::set<NodeId> nodes;
    for (const Step* step : region.channels_last.steps) {
      const auto at = plain_steps.find(step->id);
      if (at != plain_steps.end() && nodes.insert(step->id).second) region.plain.steps.push_back(at->second);
    }
    {
      const std::lock_guard lock(mutex_);
      if (std::ranges::all_of(nodes, [&](NodeId n) { return decided_.contains(n); })) continue;
    }
    const auto elsewhere = costs.race_elsewhere(region.channels_last, region.plain);
    const LayoutTimes times = elsewhere          ? *elsewhere
                              : tuner.measures() ? times_of(region, costs, told)
                                                 : estimated_times_of(region, costs);
    if (tuner.time_is_up()) break;  // estimates do not compare with what was measured
    const auto said =
        std::make_shared<const RegionTimes>(RegionTimes{.name = region.plain.steps.front()->node->name,
                                                        .steps = static_cast<int>(region.channels_last.steps.size()),
                                                        .channels_last_us = times.channels_last,
                                                        .plain_us = times.plain,
                                                        .at_least = times.at_least,
                                                        .found = std::string(text(times.by)),
                                                        .runs_plain = plain_wins(times)});
    const std::lock_guard lock(mutex_);
    for (const NodeId n : nodes) decided_.insert_or_assign(n, said);
    if (!said->runs_plain) continue;
    info("{} steps around '{}' take {:.1f} µs with channels-last images, {:.1f} µs with plain ones: they stay plain", said->steps,
         said->name, times.channels_last, times.plain);
    plain_.insert(nodes.begin(), nodes.end());
    changes = true;
  }
  told.finish();
  return changes;
}

void LayoutChoices::tell(Segment& s, const tune::Tuner& tuner) const {
  const std::lock_guard lock(mutex_);
  const auto times_of = [&](const Step& step) {
    const auto at = decided_.find(step.id);
    return at == decided_.end() ? nullptr : at->second;
  };
  for (Step& step : s.steps) step.region = times_of(step);
  const std::string_view why = carried_             ? "decided when the plan was written"
                               : tuner.time_is_up() ? "the time for measuring was up"
                                                    : "nothing is measured for shapes that a run meets first";
  std::map<const Step*, std::shared_ptr<const RegionTimes>> known;
  for (const std::vector<const Step*>& steps : regions(s)) {
    std::shared_ptr<const RegionTimes> times;
    for (const Step* step : steps)
      if (!times) times = times_of(*step);
    if (!times)
      times = std::make_shared<const RegionTimes>(
          RegionTimes{.name = steps.front()->node->name, .steps = static_cast<int>(steps.size()), .found = std::string(why)});
    for (const Step* step : steps) known.emplace(step, times);
  }
  for (Step& step : s.steps)
    if (const auto at = known.find(&step); at != known.end() && !step.region) step.region = at->second;
}

}  // namespace smelt::plan
