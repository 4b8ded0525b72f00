#include "device/cuda/module.h"

#include "base/error.h"
#include "device/cuda/abi/clusters.h"
#include "device/cuda/early_kernels.h"

namespace smelt::device::cuda {

void KernelFunction::launch(const LaunchShape& s, void* const* parameters, abi::Stream stream) const {
  abi::LaunchConfig config;
  config.grid_x = s.grid[0];
  config.grid_y = s.grid[1];
  config.grid_z = s.grid[2];
  config.block_x = s.block[0];
  config.block_y = s.block[1];
  config.block_z = s.block[2];
  config.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  config.stream = stream;
  abi::LaunchAttribute attributes[2];
  config.attributes = attributes;
  if (s.cluster > 1) {
    abi::LaunchAttribute& a = attributes[config.attribute_count++];
    a.id = abi::launch_cluster_dimension;
    a.value.cluster = {s.cluster, 1, 1};
  }
  const bool early = s.programmatic && EarlyKernels::in_scope() && device_->info().major >= 9;
  if (early) {
    abi::LaunchAttribute& a = attributes[config.attribute_count++];
    a.id = abi::launch_programmatic_stream_serialization;
    a.value.allowed = 1;
  }
  const Device::Current current(*device_);
  constexpr unsigned portable_cluster = 8;  // more blocks need permission, and a GPC that has as many multiprocessors
  if (s.cluster > portable_cluster)
    check(driver().function_set_attribute(function_, abi::function_non_portable_cluster, 1),
          fmt::format("allowing {} clusters of {} blocks", resources_.entry, s.cluster));
  const abi::Result r = driver().launch(&config, function_, const_cast<void**>(parameters), nullptr);
  if (r != abi::success)
    check(r, fmt::format("launching {} on {}x{}x{} blocks of {}x{}x{} threads with {} bytes of shared memory", resources_.entry,
                         s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2], s.shared_bytes));
  if (early) EarlyKernels::note(stream);
}

Module::Module(std::shared_ptr<Device> device, std::shared_ptr<const Cubin> cubin, std::string name)
    : device_(std::move(device)), cubin_(std::move(cubin)), module_(nullptr, Unload{device_.get()}) {
  const Device::Current current(*device_);
  abi::Module loaded = nullptr;
  check(driver().module_load(&loaded, cubin_->bytes.data()), "loading " + name);
  module_.reset(loaded);
  for (const KernelResources& k : cubin_->kernels) {
    KernelFunction f;
    f.device_ = device_.get();
    f.resources_ = k;
    check(driver().module_function(&f.function_, loaded, k.entry.c_str()), fmt::format("loading {}: {}", name, k.entry));
    // Dynamic shared memory beyond 48 KiB has to be asked for; asking for all of it costs nothing until a launch uses it.
    const int most = device_->info().shared_per_block - k.static_shared_bytes;
    check(driver().function_set_attribute(f.function_, abi::function_max_dynamic_shared_bytes, most), "loading " + name);
    functions_.emplace(k.entry, f);
  }
}

void Module::Unload::operator()(abi::Module module) const {
  const Device::Current current(*device);
  driver().module_unload(module);
}

const KernelFunction& Module::function(const std::string& entry) const {
  const auto at = functions_.find(entry);
  if (at == functions_.end()) fail("a module has no kernel '{}'", entry);
  return at->second;
}

}  // namespace smelt::device::cuda
