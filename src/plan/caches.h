// Caches of keys or values that grow in place (smelt::Cache): an input, the past, and an output, the present, that are one buffer.
#pragma once

#include <span>

#include "plan/segment.h"

namespace smelt::plan {

/// What planning for such a pair depends on: that there is one, and how far apart its elements lie.
struct CacheForm {
  ValueId past, present;
  Shape strides;  // of both, along present's axes
  bool operator==(const CacheForm&) const = default;
};

/// Tells the segment which pairs share memory (Segment::caches), with the strides that they have there. Every reader of one but
/// the Concat reads a dense copy, which assign_views leaves out where the reader follows strides. After assign_layouts. Throws
/// Error (unsupported) where the Concat is no step of the segment's.
void place_caches(Segment& s, std::span<const CacheForm> caches);

}  // namespace smelt::plan
