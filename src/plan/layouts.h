// Which tensors lie channels-last. Convolutions and pooling read and write [N, H, W, C]; pointwise operators and
// concatenations between them follow; reorders stand where a channels-last image meets an operator that wants it plain. (On AVX2,
// oneDNN's and smelt's convolutions reach 90 to 98 % of the measured peak on channels-last images, 30 to 60 % on plain ones.)
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "plan/segment.h"

namespace smelt::plan {

/// Whether some kernel ran a step with its tensors in given layouts, whatever their extents. Thread-safe.
class AcceptedLayouts {
 public:
  /// What is told apart: the step, and its tensors with which of their extents and strides are 0 or 1.
  static std::string form_of(const Step& step, const ops::BoundNode& node);
  /// Asks `ask` the first time.
  template <class F> bool runs(std::string form, F&& ask) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(form); at != known_.end()) return at->second;
    }
    const bool answer = ask();
    const std::lock_guard lock(mutex_);
    return known_.emplace(std::move(form), answer).first->second;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return known_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, bool> known_;
};

/// Whether some tactic that `tuner` allows runs the node with its tensors as they are.
bool is_offered(const ops::BoundNode& node, const tune::Tuner& tuner);

/// Sets layouts and inserts reorder steps, and gives the inputs of channels-last concatenations the strides of their slices
/// where every kernel that touches them takes strides, so that nothing is copied. A step's images are channels-last only where
/// some tactic that `tuner` allows is offered for exactly those layouts, and no step of a node in `plain` asks for it.
/// `accepted`, where given: what runs a step in which layout is remembered there from other extents of the same graph, and not
/// asked again; only extents of 1 are told from others. Where that was wrong, choose_kernels finds no kernel.
void assign_layouts(Segment& s, const tune::Tuner& tuner, const std::set<NodeId>& plain = {},
                    AcceptedLayouts* accepted = nullptr);

}  // namespace smelt::plan
