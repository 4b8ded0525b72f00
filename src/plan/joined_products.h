// Whether products of one input run as one: an ai.smelt.JoinedMatMul becomes steps that there are kernels for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plan/apart.h"
#include "plan/context.h"
#include "plan/layouts.h"
#include "plan/segment.h"
#include "plan/strided_views.h"

namespace smelt::plan {

/// Runs each JoinedMatMul in one of two forms:
///   - joined: one product, whose weights and operands are put side by side here, once for all shapes; what reads one of the
///     products reads a slice of its result, by strides;
///   - apart: the products one by one, with the model's own weights.
/// The joined form is there only where every reader follows strides. It is taken where the product and those of its readers whose
/// problem it changes are clearly faster than the products apart and the same readers: measured in turn (on a GPU one by one),
/// or estimated at level 0 and for shapes that a run meets first. A node is decided once. Thread-safe.
class JoinedProducts {
 public:
  /// `apart`: where the nodes that run apart are kept, as "products NAME"; it must outlive this.
  explicit JoinedProducts(Apart& apart) : apart_(apart) {}

  /// After the layouts and fused_choices.h, before caches are placed. `join` false: all run apart. `accepted`, where given: that
  /// kernels run a decided node's readers over slices is remembered there from other extents, and not asked again.
  void apply(Segment& s, Context& context, bool may_measure, bool join, AcceptedLayouts* accepted = nullptr);

 private:
  struct Decision {
    std::shared_ptr<const FusedTimes> times;
    bool joined = false;
  };
  /// What a joined product reads: its weights, then its operands, not valid() where the products share one.
  using Constants = std::vector<Tensor>;
  class Pass;

  mutable std::mutex mutex_;
  std::map<NodeId, Decision> decided_;
  std::map<std::string, Decision> by_problem_;
  std::map<NodeId, std::shared_ptr<const Constants>> constants_;
  std::map<NodeId, Movers> movers_;  // of nodes that were joined
  Apart& apart_;
};

}  // namespace smelt::plan
