// Whether one step in the place of several pays: its time against theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/apart.h"
#include "plan/priced.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Decides a node once, for the first shapes that its graph is planned for: measured, or estimated at level 0 and for shapes that a
/// run meets first. Where no kernel takes the one step for other shapes, the parts run there. Thread-safe.
class OneOrApart {
 public:
  struct Decision {
    std::shared_ptr<const FusedTimes> times;  // null where no kernel takes the one step
    bool one = false;
  };
  struct Question {
    const Step& one;
    std::string_view kind;                     // before the node's name: its entry in Apart, where it runs apart
    std::string_view with;                     // what it runs with, for messages
    double below = 1;                          // the share of the others' time that it has to stay below
    std::function<std::vector<Step>()> apart;  // the steps that it stands for
  };

  /// `apart` must outlive this.
  explicit OneOrApart(Apart& apart) : apart_(apart) {}
  Decision decide(const Segment& s, const Question& question, Context& context, bool may_measure);
  /// What was decided, where a node runs apart for all shapes: nothing need be made to ask about it again.
  std::optional<Decision> apart_before(NodeId id) const;

 private:
  std::optional<Decision> decided(NodeId id) const;

  mutable std::mutex mutex_;
  std::map<NodeId, Decision> decided_;
  std::map<std::string, Decision> by_problem_;  // of all of them
  Apart& apart_;
};

}  // namespace smelt::plan
