// Compiled kernels on a device, and their launches.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "device/cuda/cubins.h"
#include "device/cuda/device.h"
#include "device/cuda/grid.h"

namespace smelt::device::cuda {

struct LaunchShape {
  Grid grid;
  unsigned block[3] = {1, 1, 1};
  int64_t shared_bytes = 0;   // dynamic
  unsigned cluster = 1;       // blocks of a cluster along x
  bool programmatic = false;  // may start before the kernel before it has ended; the kernel itself waits (griddepcontrol)
};

/// A kernel of a module. Lives as long as the module.
class KernelFunction {
 public:
  /// Enqueues it. `parameters` points at each argument. Captured where the stream is capturing. Throws Error naming the kernel.
  void launch(const LaunchShape& shape, void* const* parameters, abi::Stream stream) const;
  const KernelResources& resources() const { return resources_; }
  abi::Function get() const { return function_; }

 private:
  friend class Module;
  const Device* device_ = nullptr;
  abi::Function function_ = nullptr;
  KernelResources resources_;
};

class Module {
 public:
  Module(std::shared_ptr<Device> device, std::shared_ptr<const Cubin> cubin, std::string name);
  const KernelFunction& function(const std::string& entry) const;  // throws Error (failed) for a name that it lacks

 private:
  struct Unload {
    const Device* device;
    void operator()(abi::Module module) const;
  };
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Cubin> cubin_;
  std::unique_ptr<CUmod_st, Unload> module_;
  std::map<std::string, KernelFunction> functions_;
};

}  // namespace smelt::device::cuda
