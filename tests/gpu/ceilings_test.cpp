// What GPU 0 reaches at best, against what its data say.
#include "device/cuda/ceilings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/cuda/module.h"

namespace smelt::device::cuda {
namespace {

/// For compute-sanitizer (scripts/gpu_tests.sh). The loops and the read write nothing: only the copy has a result to compare.
TEST(GpuCeilings, every_kernel_ends_after_little_work) {
  const auto device = Device::open(0);
  const auto cubin = CubinStore().get(ceiling_kernels(), device->info().arch);
  const Module module(device, cubin, "ceilings");
  const Stream stream(device);
  const Device::Current current(*device);
  int64_t vectors = 300;
  std::vector<char> bytes(16 * static_cast<size_t>(vectors), 0x3c), copied(bytes.size());
  const auto x = device->allocate(16 * vectors, "x"), y = device->allocate(16 * vectors, "y");
  check(driver().copy_to_device(x->address(), bytes.data(), bytes.size(), stream.get()), "copying");
  abi::Address from = x->address(), to = y->address();
  int rounds = 2;
  void *moved[] = {&from, &to, &vectors}, *looped[] = {&from, &rounds};
  for (const KernelResources& k : cubin->kernels) {
    const unsigned threads = k.entry.starts_with("wgmma") ? 128 : 256;
    module.function(k.entry).launch({.grid = {2, 1, 1}, .block = {threads, 1, 1}},
                                    k.entry == "copy" || k.entry == "read" ? moved : looped, stream.get());
    if (k.entry == "copy") check(driver().copy_to_host(copied.data(), y->address(), copied.size(), stream.get()), "copying");
    stream.synchronize();
  }
  EXPECT_EQ(copied, bytes);
}

TEST(GpuCeilings, are_plausible_for_the_device) {
  const auto device = Device::open(0);
  CubinStore cubins;
  const int64_t used = device->used_bytes();
  const Ceilings c = measure_ceilings(device, cubins, 0.5);
  EXPECT_EQ(device->used_bytes(), used);
  EXPECT_EQ(c.threads, 0);
  const double bandwidth = device->info().bandwidth * 1e6;
  if (bandwidth > 0)
    for (const double reached : {c.copy_bytes_per_s, c.read_bytes_per_s}) {
      EXPECT_GT(reached, 0.7 * bandwidth);
      EXPECT_LT(reached, 1.02 * bandwidth);
    }
  EXPECT_GT(c.launch_us, 0.3);
  EXPECT_LT(c.launch_us, 10);
  const auto rate = [&](DType t) {
    const auto at = std::ranges::find(c.rates, t, &Rate::type);
    return at == c.rates.end() ? 0.0 : at->flops_per_s;
  };
  // 128 multiply-adds a clock and multiprocessor (64 before 8.6, but for 9.0), at the highest clock.
  const DeviceInfo& i = device->info();
  const double lanes = i.major == 7 || (i.major == 8 && i.minor == 0) ? 64 : 128;
  const double most = 2e6 * lanes * i.clock_mhz * i.multiprocessors;
  EXPECT_GT(rate(DType::f32), 0.6 * most);
  EXPECT_LT(rate(DType::f32), 1.05 * most);
  EXPECT_GT(rate(DType::f16), 4 * rate(DType::f32)) << "tensor cores";
  EXPECT_GT(rate(DType::i8), 1.3 * rate(DType::f16));
  if (i.major == 9) {  // 4096 operations a clock and multiprocessor: mma.sync reaches about 60%; power lowers the clocks
    EXPECT_GT(rate(DType::f16), 0.6 * 4096e6 * i.clock_mhz * i.multiprocessors);
  }
}

}  // namespace
}  // namespace smelt::device::cuda
