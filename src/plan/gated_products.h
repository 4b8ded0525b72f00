// Whether a gate and what it gates are one product: two products of one input of which one has the other in its program.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plan/context.h"
#include "plan/one_or_apart.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Replaces such pairs of steps of a GPU's plan by one step (ops/matmul/gated_product.h) where a kernel takes it and is clearly
/// faster than both: measured, or estimated at level 0 and for shapes that a run meets first. The weights of both are put side by
/// side here, once for all shapes. A pair is decided once. Thread-safe.
class GatedProducts {
 public:
  /// `apart`: where the gates that run apart from what they gate are kept, as "gate NAME"; it must outlive this.
  explicit GatedProducts(Apart& apart) : choices_(apart) {}

  /// After joined_products.h, before strided_views.h.
  void apply(Segment& s, Context& context, bool may_measure);

 private:
  struct Pair;
  Tensor weights(const Segment& s, const Step& gate, const Step& up);

  mutable std::mutex mutex_;
  std::map<NodeId, Tensor> weights_;  // by the gate's node
  OneOrApart choices_;
};

}  // namespace smelt::plan
