// Whether queries and keys are turned by one kernel: two rotary embeddings by the same tables.
#pragma once

#include "plan/context.h"
#include "plan/one_or_apart.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Replaces such pairs of steps of a GPU's plan by an ai.smelt.JoinedRotary where that is faster than both: measured, or estimated
/// at level 0 and for shapes that a run meets first. A pair is decided once. Thread-safe.
class JoinedRotary {
 public:
  /// `apart`: where those that run apart are kept, as "rotary NAME"; it must outlive this.
  explicit JoinedRotary(Apart& apart) : choices_(apart) {}

  /// Before strided_views.h.
  void apply(Segment& s, Context& context, bool may_measure);

 private:
  OneOrApart choices_;
};

}  // namespace smelt::plan
