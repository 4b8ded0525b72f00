#include "device/cuda/ceilings.h"

#include <algorithm>

#include "device/cuda/graph.h"
#include "device/cuda/module.h"

namespace smelt::device::cuda {
namespace {

/// A loop over registers.
struct Loop {
  DType type;
  const char *entry, *how;
  unsigned threads, blocks;  // of a block; blocks a multiprocessor
  int rounds;                // about a millisecond
  double flops;              // of a warp in a round
};

constexpr Loop loops[] = {
    {DType::f32, "fma_f32", "fma loop", 256, 8, 4096, 2.0 * 32 * 16},
    {DType::f16, "mma_f16", "mma.sync loop", 256, 2, 4096, 2.0 * 8 * 16 * 8 * 16},
    {DType::bf16, "mma_bf16", "mma.sync loop", 256, 2, 4096, 2.0 * 8 * 16 * 8 * 16},
    {DType::i8, "mma_i8", "mma.sync loop", 256, 2, 4096, 2.0 * 8 * 16 * 8 * 32},
    {DType::f16, "wgmma_f16", "wgmma loop", 128, 4, 256, 2.0 * 16 * 64 * 128 * 16 / 4},
    {DType::bf16, "wgmma_bf16", "wgmma loop", 128, 4, 256, 2.0 * 16 * 64 * 128 * 16 / 4},
    {DType::i8, "wgmma_i8", "wgmma loop", 128, 4, 256, 2.0 * 16 * 64 * 128 * 32 / 4},
};

/// Bytes of one of two arrays: what no L2 cache holds, of what is free.
int64_t array_bytes(const Device& device) {
  const int64_t wanted = std::max(int64_t{1} << 30, 8 * device.info().l2_bytes);
  return std::max(std::min(wanted, device.free_bytes() / 4), int64_t{1} << 20) / 4096 * 4096;
}

}  // namespace

Source ceiling_kernels() { return {"ceilings", "#include \"ceilings/ceilings.cuh\"\n", {}}; }

Ceilings measure_ceilings(const std::shared_ptr<Device>& device, CubinStore& cubins, double seconds,
                          const std::function<void(const std::string&)>& progress) {
  const auto cubin = cubins.get(ceiling_kernels(), device->info().arch);
  const Module module(device, cubin, "ceilings");
  const auto multiprocessors = static_cast<unsigned>(device->info().multiprocessors);
  const auto say = [&](std::string_view what) {
    if (progress) progress(std::string(what));
  };
  // Microseconds of the shortest replay; about 17 of these are timed.
  const auto best_us = [&](const char* entry, const LaunchShape& shape, void* const* parameters, int calls) {
    const KernelFunction& function = module.function(entry);
    const auto us = time_graph(device, [&](int, abi::Stream stream) { function.launch(shape, parameters, stream); },
                               {.calls = calls, .replays = 1000, .budget_us = seconds * 1e6 / 17});
    return std::ranges::min(us);
  };

  Ceilings c;
  say("memory bandwidth");
  const int64_t size = array_bytes(*device);
  const auto x = device->allocate(size, "measuring bandwidth"), y = device->allocate(size, "measuring bandwidth");
  abi::Address from = x->address(), to = y->address();
  int64_t vectors = size / 16;
  {
    const Stream stream(device);
    const Device::Current current(*device);
    for (const auto& memory : {x, y})
      check(driver().fill_bytes(memory->address(), 0x3c, static_cast<size_t>(size), stream.get()), "filling an array");
    stream.synchronize();
  }
  void* moved[] = {&from, &to, &vectors};
  for (const unsigned waves : {4u, 16u, 64u, 4096u}) {
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(int64_t{multiprocessors} * waves, (vectors + 255) / 256));
    const LaunchShape shape{.grid = {blocks, 1, 1}, .block = {256, 1, 1}};
    const auto bytes = static_cast<double>(size);
    c.copy_bytes_per_s = std::max(c.copy_bytes_per_s, 2 * bytes / best_us("copy", shape, moved, 2) * 1e6);
    c.read_bytes_per_s = std::max(c.read_bytes_per_s, bytes / best_us("read", shape, moved, 2) * 1e6);
  }

  say("launches in a CUDA graph");
  c.launch_us = best_us("nothing", {.block = {32, 1, 1}}, nullptr, 200);

  for (const Loop& loop : loops) {
    if (std::ranges::find(cubin->kernels, loop.entry, &KernelResources::entry) == cubin->kernels.end()) continue;
    say(std::string(name(loop.type)) + ", " + loop.how);
    int rounds = loop.rounds;
    void* parameters[] = {&from, &rounds};
    const LaunchShape shape{.grid = {multiprocessors * loop.blocks, 1, 1}, .block = {loop.threads, 1, 1}};
    const double warps = static_cast<double>(shape.grid[0]) * loop.threads / 32;
    const double rate = warps * rounds * loop.flops / best_us(loop.entry, shape, parameters, 2) * 1e6;
    auto at = std::ranges::find(c.rates, loop.type, &Rate::type);
    if (at == c.rates.end()) at = c.rates.insert(at, Rate{.type = loop.type});
    if (rate > at->flops_per_s) *at = {loop.type, rate, loop.how};
  }
  return c;
}

}  // namespace smelt::device::cuda
