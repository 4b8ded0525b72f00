// Bools that lie on a GPU.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "device/cuda/module.h"

namespace smelt::device::cuda {

/// Makes bytes other than 0 and 1 the 1 that they stand for: kernels know those two alone. It is compiled by the driver, so that plans
/// that carry their kernels need no NVRTC for it.
class Booleans {
 public:
  explicit Booleans(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  /// Loads the kernel, where it is not loaded: what must not happen while a caller captures.
  const Module& load();
  void make_0_or_1(abi::Address at, int64_t count, abi::Stream stream);

 private:
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::optional<Module> module_;
};

}  // namespace smelt::device::cuda
