// The GPU that kernels are chosen for, and what its kernels have in common.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/cubins.h"
#include "device/cuda/device.h"
#include "device/cuda/module.h"
#include "ops/device_weights.h"
#include "ops/tactic.h"

namespace smelt::ops {

/// Which device, and where its compiled kernels are kept.
struct Gpu {
  device::cuda::DeviceInfo info;
  std::shared_ptr<device::cuda::Device> device;       // null where kernels are only compiled, for another machine
  std::shared_ptr<device::cuda::CubinStore> cubins;
  std::shared_ptr<DeviceWeights> weights = std::make_shared<DeviceWeights>();   // constants that kernels keep packed on the device
};

/// A kernel of smelt's own: compiled, or found in the cache, when made.
class CompiledKernel : public Kernel {
 public:
  CompiledKernel(const Gpu& gpu, const device::cuda::Source& source, const std::string& entry);

  const device::cuda::KernelResources& resources() const { return resources_; }

 protected:
  /// Enqueues it on the stream of `b`.
  void launch(const Buffers& b, const device::cuda::LaunchShape& shape, void* const* parameters) const;

 private:
  std::shared_ptr<const device::cuda::Module> module_;
  const device::cuda::KernelFunction* function_ = nullptr;
  device::cuda::KernelResources resources_;
};

/// What Divider::quotient (common/divide.cuh) wants for this divisor, of 1 … 2^31 - 1.
struct Divider {
  uint32_t divisor = 1, multiplier = 0, shift = 0;
  explicit Divider(uint32_t d = 1);
};

/// How many elements of `bytes` each make the widest access that memory of this alignment allows, 16 bytes at most.
int64_t widest_access(int64_t bytes, int64_t alignment);

}  // namespace smelt::ops
