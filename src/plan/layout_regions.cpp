#include "plan/layout_regions.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "base/log.h"

namespace smelt::plan {
namespace {

/// A region that costs about the same either way stays as it is.
constexpr double clearly_less = 0.95;

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

bool is_channels_last(const Segment& s, TensorIndex t) { return t != absent && s.tensor(t).layout == ops::Layout::nhwc; }

/// The steps around channels-last tensors, by region.
std::vector<std::vector<const Step*>> regions(const Segment& s) {
  Groups groups(s.tensors.size());
  std::vector<std::pair<const Step*, TensorIndex>> touching;
  for (const Step& step : s.steps) {
    TensorIndex first = absent;
    for (const auto* tensors : {&step.inputs, &step.outputs}) {
      for (TensorIndex t : *tensors) {
        if (!is_channels_last(s, t)) continue;
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

/// Allowed kernels of plain images alone: those that reorder them are the channels-last step's, and copies more.
void keep_plain_kernels(ops::Offer& offer, const tune::Tuner& tuner) {
  std::erase_if(offer.candidates, [&](const ops::Candidate& c) {
    return c.config.ends_with("reordered") || c.tactic == "reference" || !tuner.allows(c.tactic);
  });
}

/// Microseconds of a step: measured for kernels, estimated for copies; infinite where no kernel is left of plain images.
double cost_us(const Segment& s, const Step& step, tune::Tuner& tuner, ops::WeightStore* weights, bool plain) {
  if (step.kind == StepKind::kernel) {
    const ops::BoundNode node = bound_node(s, step, weights);
    ops::Offer offer = ops::offer(node, tuner.machine());
    if (plain) keep_plain_kernels(offer, tuner);
    return offer.candidates.empty() ? std::numeric_limits<double>::infinity() : tuner.time_us(node, offer);
  }
  if (step.kind != StepKind::concat) return 0;
  // Slices of a channels-last image lie in it where their makers take strides; those of a plain one where they are contiguous.
  constexpr double bytes_per_us = 4e3;
  double moved = 0;
  for (TensorIndex t : step.inputs) {
    if (t == absent || !s.tensor(t).strides.empty()) continue;
    const bool contiguous = !is_channels_last(s, t) && s.tensor(t).shape[0] == 1;
    if (!contiguous) moved += 2.0 * static_cast<double>(ops::storage_bytes(s.tensor(t)));
  }
  return moved / bytes_per_us / tuner.machine().threads;
}

}  // namespace

std::set<NodeId> LayoutChoices::plain() const {
  const std::lock_guard lock(mutex_);
  return plain_;
}

void LayoutChoices::carry(std::set<NodeId> plain) {
  const std::lock_guard lock(mutex_);
  plain_ = std::move(plain);
  carried_ = true;
}

bool LayoutChoices::decide(const Segment& channels_last, const Segment& plain, tune::Tuner& tuner, ops::WeightStore* weights,
                           const std::function<void(const Progress&)>& progress) {
  if (!tuner.measures()) return false;
  {
    const std::lock_guard lock(mutex_);
    if (carried_) return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  int done = 0;
  const int total = static_cast<int>(channels_last.steps.size() + plain.steps.size());  // at most
  const auto timed = [&](const Segment& s, const Step& step, bool is_plain) {
    const double us = cost_us(s, step, tuner, weights, is_plain);
    ++done;
    if (progress) progress({"tuning", step.node->name, done, total, seconds(), seconds() / done * (total - done)});
    return us;
  };
  std::map<NodeId, const Step*> plain_steps;
  for (const Step& step : plain.steps)
    if (step.id != NodeId::none) plain_steps.emplace(step.id, &step);
  bool changes = false;
  for (const std::vector<const Step*>& region : regions(channels_last)) {
    std::vector<NodeId> nodes;
    for (const Step* step : region)
      if (step->id != NodeId::none && plain_steps.contains(step->id)) nodes.push_back(step->id);
    {
      const std::lock_guard lock(mutex_);
      if (std::ranges::all_of(nodes, [&](NodeId n) { return decided_.contains(n); })) continue;
    }
    double as_it_is = 0, otherwise = 0;
    std::map<NodeId, double> each;
    for (const Step* step : region) as_it_is += each[step->id] = timed(channels_last, *step, false);
    std::ranges::stable_sort(nodes, std::ranges::greater(), [&](NodeId n) { return each[n]; });
    for (NodeId n : nodes) {
      if (otherwise >= clearly_less * as_it_is) break;  // it cannot win any more
      otherwise += timed(plain, *plain_steps.at(n), true);
    }
    if (tuner.time_is_up()) break;  // estimates do not compare with what was measured
    const bool better = otherwise < clearly_less * as_it_is;
    const std::lock_guard lock(mutex_);
    decided_.insert(nodes.begin(), nodes.end());
    if (!better) continue;
    info("{} steps around '{}' take {:.1f} µs with channels-last images, {:.1f} µs with plain ones: they stay plain",
         region.size(), plain_steps.at(nodes.front())->node->name, as_it_is, otherwise);
    plain_.insert(nodes.begin(), nodes.end());
    changes = true;
  }
  if (progress && done > 0) progress({"tuning", "", total, total, seconds(), 0});
  return changes;
}

}  // namespace smelt::plan
