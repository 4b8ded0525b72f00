// Whether a normalisation and the product that reads it are one step.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ops/matmul/normed_product.h"
#include "plan/context.h"
#include "plan/one_or_apart.h"
#include "plan/segment.h"

namespace smelt::plan {

/// Replaces a normalisation of rows, by constants, and the one product by constant weights that reads it by one step of a GPU's plan
/// (ops/matmul/normed_product.h) where a kernel takes it and is clearly faster than both: measured, or estimated at level 0 and for shapes
/// that a run meets first. The weights are made here, once for all shapes. A product is decided once. Thread-safe.
class NormedProducts {
 public:
  /// `apart`: where the products that run apart from the normalisation are kept, as "norm NAME"; it must outlive this.
  explicit NormedProducts(Apart& apart) : choices_(apart) {}

  /// After gated_products.h, before strided_views.h.
  void apply(Segment& s, Context& context, bool may_measure);

 private:
  mutable std::mutex mutex_;
  std::map<NodeId, ops::matmul::NormedWeights> weights_;  // by the product's node
  OneOrApart choices_;
};

}  // namespace smelt::plan
