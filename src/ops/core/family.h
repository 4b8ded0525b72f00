// Operators with a choice of kernels, by family. Each family lives in src/ops/FAMILY/: one file a tactic, offer.cpp, which
// defines the family's row of the table in src/ops/registry/offer.cpp, and where a node alone does not say what is computed, problem.h,
// which does.
#pragma once

#include <string_view>

#include "ops/core/tactic.h"

namespace smelt::ops {

struct TacticFamily {
  std::string_view name;
  bool (*handles)(const Node& node);
  /// Sets offer.problem and adds candidates and rejections; the reference is added by ops::offer.
  void (*offer)(const BoundNode& node, const Machine& machine, Offer& offer);
  /// Its kernels like channels-last images: where a node's are plain, they are offered with reorders around them too.
  bool images = false;
  /// The same on a GPU (machine.gpu is set); null where the family has no kernels there.
  void (*gpu_offer)(const BoundNode& node, const Machine& machine, Offer& offer) = nullptr;
};

/// "f32[1,64,56,56]:nhwc", with ":strided" where the tensor is a slice of another; "-" for an input left out.
std::string print(const BoundTensor& t);
std::string_view name(Layout layout);

}  // namespace smelt::ops
