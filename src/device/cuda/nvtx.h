// Names for what a thread does, for Nsight Systems and other tools that listen to NVTX.
#pragma once

#include <string>

#include "device/cuda/abi/nvtx.h"

namespace smelt::device::cuda {

struct RangeListener;

/// Names what this thread does while the object lives: a range of the domain "smelt", nested in those around it. Where no tool
/// listens it costs a comparison.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;

 private:
  const RangeListener* listener_;
};

/// Lets a tool listen; false where the tool declines. The tool that NVTX_INJECTION64_PATH names, which Nsight sets for the
/// programs that it starts, needs no call.
bool listen_to_ranges(abi::NvtxInitialize tool);

}  // namespace smelt::device::cuda
