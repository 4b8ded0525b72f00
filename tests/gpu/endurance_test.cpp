#include "run/endurance.h"

#include "device/cuda/device.h"
#include "profile/profile.h"

namespace smelt::run {
namespace {

TEST(GpuEndurance, ten_thousand_runs_from_eight_threads_over_four_plans_in_flat_memory) {
  Options o = quick();
  o.device = "gpu";
  o.skip.clear();
  o.tactics = "-cudnn";  // each Execution compiles its engines for seconds
  const auto device = device::cuda::Device::open(0);
  // A shape more of an Execution is tens of kilobytes of the pool, and a CUDA graph, for which the driver takes device memory in
  // steps of 2 MiB: 59 MB in all, none of it over the last runs, measured on an H200. The driver tells only what all processes
  // use: another one's allocations fail this test.
  endure(o, {{"pool", [&] { return device->held_bytes(); }, 2 << 20, 1 << 20},
             {"in use", [&] { return device->used_bytes(); }, 2 << 20, 1 << 20},
             {"device memory", [&] { return device->info().memory_bytes - device->free_bytes(); }, 128 << 20, 16 << 20},
             {"resident memory", [] { return profile::resident_bytes(); }, 64 << 20, 8 << 20}});
}

}  // namespace
}  // namespace smelt::run
