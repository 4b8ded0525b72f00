// Whether channels-last images pay: each region of them is measured against the same steps over plain images.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "plan/segment.h"

namespace smelt::plan {

/// The nodes whose images stay plain, as measurement decided for the first shapes that a graph was planned for. Thread-safe.
class LayoutChoices {
 public:
  /// The nodes that a pass over layouts leaves plain.
  std::set<NodeId> plain() const;
  /// Whether an earlier process decided.
  bool carries() const;
  /// Takes the decision of an earlier process: these stay plain, and no other region is decided.
  void carry(std::set<NodeId> plain);
  /// Compares each region of `channels_last` (its channels-last tensors that steps connect) whose nodes were not decided before
  /// with the same nodes' steps in `plain`, each with the kernel that it gets there, and keeps the decision: by the sums of their
  /// times where plain images are far behind, else by a race of the two, steps and reorders one behind the other. At a level that
  /// measures nothing the sums of estimates decide, where they differ by far. `progress` hears of each step that is measured. True when some region is to be plain that is not in
  /// `channels_last`.
  bool decide(const Segment& channels_last, const Segment& plain, tune::Tuner& tuner, ops::WeightStore* weights,
              const std::function<void(const Progress&)>& progress = {});
  /// Gives the steps of each region its times, or why it has none; `s`: what was decided, laid out so.
  void tell(Segment& s, const tune::Tuner& tuner) const;

 private:
  mutable std::mutex mutex_;
  std::map<NodeId, std::shared_ptr<const RegionTimes>> decided_;
  std::set<NodeId> plain_;
  bool carried_ = false;
};

}  // namespace smelt::plan
