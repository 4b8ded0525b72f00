// Names for what a thread does, for Nsight Systems and other tools that listen to NVTX.
#pragma once

#include <string>

#include "device/cuda/abi/nvtx.h"

namespace smelt::device::cuda {

struct RangeListener;

/// From here to its end this thread does `name`: a range of the domain "smelt", nested in those around it. Where no tool listens
/// it costs a comparison.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;

 private:
  const RangeListener* listener_;
};

/// Lets a tool listen; false where it does not want to. The one that NVTX_INJECTION64_PATH names, which Nsight sets for the
/// programs that it starts, listens without.
bool listen_to_ranges(abi::NvtxInitialize tool);

}  // namespace smelt::device::cuda
