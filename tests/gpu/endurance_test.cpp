#include "run/endurance.h"

#include "device/cuda/device.h"
#include "profile/profile.h"

namespace smelt::run {
namespace {

TEST(GpuEndurance, ten_thousand_runs_from_eight_threads_over_four_plans_in_flat_memory) {
  Options o = quick();
  o.device = "gpu";
  o.skip.clear();
  o.tactics = "-cudnn";   // each Execution compiles its engines for seconds
  const auto device = device::cuda::Device::open(0);
  // Two threads may meet later at an Execution that then has a shape more to bind: tens of kilobytes of the pool, and what the
  // driver keeps of a CUDA graph. A kilobyte lost at every run would be nine mebibytes.
  endure(o, {{"pool", [&] { return device->held_bytes(); }, 4 << 20},
             {"in use", [&] { return device->used_bytes(); }, 4 << 20},
             {"device memory", [&] { return device->info().memory_bytes - device->free_bytes(); }, 32 << 20},
             {"resident memory", [] { return profile::resident_bytes(); }, 32 << 20}});
}

}  // namespace
}  // namespace smelt::run
