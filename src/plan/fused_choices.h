// Whether a fused step pays: its time against that of the operators which it stands for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plan/apart.h"
#include "plan/context.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Which fused nodes run as the operators that they were made of. A node is decided once, for the first shapes that its graph is
/// planned for: by what the tuner measured, and measures for it; at a level that measures nothing by estimates. Thread-safe.
///
/// Every fused step is compared, whatever its operator and however its tensors lie, reorders included; one that cannot be says why
/// (plan/not_compared.h). JoinedProducts decides products of one input.
class FusedChoices {
 public:
  /// `apart`: where the nodes that run apart are kept, and how, as "0 NAME"; it must outlive this.
  explicit FusedChoices(Apart& apart) : apart_(apart) {}

  /// Gives each decided step its times, and replaces those that lost by the steps of their parts. After the layouts, before
  /// buffers are assigned. For the processor's plans.
  /// At Measure::no estimates decide what was not decided before, of the kernels that offer_unmeasured() gives.
  void apply(Segment& s, Context& context, Measure measure);

 private:
  struct Decision {
    std::shared_ptr<const FusedTimes> times;  // no_times() where there are no parts to compare
    std::vector<std::string> without;         // of one that runs apart: the rewrites that its parts are made without
    size_t way = 0;                           // which of the lists of them
  };
  std::shared_ptr<const Decision> decide(const Segment& s, const Step& step, Context& context, Measure measure);

  mutable std::mutex mutex_;
  std::map<std::pair<NodeId, int>, std::shared_ptr<const Decision>> decided_;  // by part
  std::map<std::string, std::shared_ptr<const Decision>> by_problem_;
  Apart& apart_;
};

}  // namespace smelt::plan
