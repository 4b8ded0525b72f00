// Whether a first layer, with its image's conversion and its pooling, is one kernel or several.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plan/apart.h"
#include "plan/context.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Replaces ai.smelt's StemConv and StemQLinearConv (ops/conv/stem.h) by the conversion, the convolution and the pooling that they
/// stand for where no kernel takes them, as none does on a processor, and where one is not faster than those: measured, or estimated
/// at level 0 and for shapes that a run meets first. A node is decided once. Thread-safe.
class FirstLayers {
 public:
  /// `apart`: where those that run apart are kept, as "first layer NAME"; it must outlive this.
  explicit FirstLayers(Apart& apart) : apart_(apart) {}

  /// Before the layouts, which the parts get like any other steps: where no kernel takes the whole in any layout.
  void split_refused(Segment& s, Context& context) const;
  /// After the layouts, of a GPU's plan.
  void apply(Segment& s, Context& context, bool may_measure);

 private:
  std::shared_ptr<const FusedTimes> decide(const Segment& s, const Step& step, Context& context, bool may_measure);

  mutable std::mutex mutex_;
  std::map<NodeId, std::shared_ptr<const FusedTimes>> decided_;
  std::map<std::string, std::shared_ptr<const FusedTimes>> by_problem_;
  Apart& apart_;
};

}  // namespace smelt::plan
