// Whether one step in the place of several pays: its time against theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
    NodeId id;              // the node's that is decided
    std::string entry;      // in Apart, where it runs apart
    std::string_view with;  // what it runs with, for messages
    double below;           // the share of the others' time that it has to stay below
    std::function<Priced()> one;
    std::function<std::vector<Priced>()> parts;  // that it stands for
  };

  /// `apart` must outlive this.
  explicit OneOrApart(Apart& apart) : apart_(apart) {}
  Decision decide(const Question& question, const Node& node, Context& context, bool may_measure);

 private:
  mutable std::mutex mutex_;
  std::map<NodeId, Decision> decided_;
  std::map<std::string, Decision> by_problem_;  // of all of them
  Apart& apart_;
};

}  // namespace smelt::plan
