// Which kernels of a capture may begin before the one before them has ended.
#pragma once

#include <set>

#include "device/cuda/driver.h"

namespace smelt::device::cuda {

/// While in scope, kernels that this thread launches with LaunchShape::programmatic into a capture may begin early, from sm_90
/// on; notes their nodes.
class EarlyKernels {
 public:
  EarlyKernels();
  ~EarlyKernels();
  EarlyKernels(const EarlyKernels&) = delete;
  bool contains(abi::GraphNode node) const { return nodes_.contains(node); }
  /// Whether it has work to do before it waits, for which it may begin as soon as the kernel before it has.
  bool ahead(abi::GraphNode node) const { return ahead_.contains(node); }

  static bool in_scope();
  /// Such a kernel was put on the stream.
  static void note(abi::Stream stream);
  /// The kernel that was just noted has work to do before it waits.
  static void note_ahead(abi::Stream stream);

 private:
  EarlyKernels* outer_;
  std::set<abi::GraphNode> nodes_, ahead_;
};

}  // namespace smelt::device::cuda
