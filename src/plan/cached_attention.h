// Whether an attention writes the caches that it reads: one step in the place of the Concats of a past and what is new, and the
// attention over both.
#pragma once

#include <span>

#include "plan/caches.h"
#include "plan/context.h"
#include "plan/one_or_apart.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Replaces such steps of a GPU's plan by an ai.smelt.CachedAttention where a kernel takes it and is faster than the attention and
/// the copies of both pasts: measured, or estimated at level 0 and for shapes that a run meets first. Caches that grow in place
/// copy nothing and stay as they are. An attention is decided once. Thread-safe.
class CachedAttention {
 public:
  /// `apart`: where the attentions that run apart from their caches are kept, as "cache NAME"; it must outlive this.
  explicit CachedAttention(Apart& apart) : choices_(apart) {}

  /// After the layouts, before strided_views.h.
  void apply(Segment& s, std::span<const CacheForm> in_place, Context& context, bool may_measure);

 private:
  OneOrApart choices_;
};

}  // namespace smelt::plan
