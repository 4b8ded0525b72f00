// Clusters of more blocks than every device of their architecture has room for.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "device/cuda/device.h"

namespace smelt::device::cuda {

/// What the driver says of a device, asked once for each number of blocks. A group of multiprocessors (a GPC) has 16 on some cards and
/// fewer on others of the same architecture, and so have the slices of a card that is shared (MIG). Thread-safe.
class Clusters {
 public:
  /// How many clusters of so many blocks run at once where a block takes a multiprocessor for itself; 0: none can, or the driver cannot
  /// be asked.
  int at_once(const std::shared_ptr<Device>& device, unsigned blocks);

 private:
  std::mutex mutex_;
  std::map<unsigned, int> known_;  // by blocks
};

}  // namespace smelt::device::cuda
