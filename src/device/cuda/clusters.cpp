#include "device/cuda/clusters.h"

#include <string_view>

#include "base/error.h"
#include "device/cuda/abi/clusters.h"
#include "device/cuda/library.h"
#include "device/cuda/module.h"

namespace smelt::device::cuda {
namespace {

/// A kernel that does nothing: what is asked depends on its blocks' threads and shared memory alone.
constexpr std::string_view program = R"(.version 7.8
.target sm_90
.address_size 64
.visible .entry nothing()
{
  ret;
}
)";

const abi::Clusters* clusters() {
  static const Functions<abi::Clusters> f = [] {
    Functions<abi::Clusters> opened({"NVIDIA's driver", {"libcuda.so.1", "libcuda.so"}, "without it there is no GPU to run on"},
                                    "Install a driver of CUDA 11.8 or newer.");
#define X(name, symbol, ...) opened.load(&abi::Clusters::name, #symbol);
    SMELT_CUDA_CLUSTERS(X)
#undef X
    return opened;
  }();
  return f.missing().empty() ? &f.get() : nullptr;
}

int ask(const std::shared_ptr<Device>& device, unsigned blocks) {
  if (device->info().major < 9 || !clusters()) return 0;
  try {
    auto image = std::make_shared<Cubin>();
    image->bytes = program;  // the driver reads a text up to the 0 behind it
    image->kernels.push_back({.entry = "nothing"});
    const Module module(device, image, "clusters");
    const abi::Function function = module.function("nothing").get();
    const Device::Current current(*device);
    abi::LaunchAttribute size;
    size.id = abi::launch_cluster_dimension;
    size.value.cluster = {blocks, 1, 1};
    abi::LaunchConfig config;
    config.grid_x = blocks;
    config.block_x = 512;
    config.shared_bytes = static_cast<unsigned>(device->info().shared_per_block);  // a multiprocessor holds one such block
    config.attributes = &size;
    config.attribute_count = 1;
    check(driver().function_set_attribute(function, abi::function_non_portable_cluster, 1), "asking for clusters");
    int most = 0;
    return clusters()->most_active(&most, function, &config) == abi::success ? most : 0;
  } catch (const Error&) {
    refuse_if_lost();
    return 0;  // a driver that compiles nothing, say: clusters of the portable size do
  }
}

}  // namespace

int Clusters::at_once(const std::shared_ptr<Device>& device, unsigned blocks) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(blocks);
  return known != known_.end() ? known->second : known_[blocks] = ask(device, blocks);
}

}  // namespace smelt::device::cuda
