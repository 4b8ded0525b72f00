// Copies from the host's memory to a device's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/cuda/device.h"

namespace smelt::device::cuda {

struct Upload {
  abi::Address to = 0;
  const void* from = nullptr;
  int64_t bytes = 0;
};

/// Makes all of the copies, by up to `threads` threads, and waits for them. Where there is much to copy each thread copies into
/// pinned memory of its own while the device reads what it copied before: eight threads reach 50 GB/s on an H200's host, where
/// the driver's own copies of memory that is not pinned reach 7, by however many threads. Throws Error.
void upload(const std::shared_ptr<Device>& device, std::span<const Upload> uploads, int threads);

}  // namespace smelt::device::cuda
