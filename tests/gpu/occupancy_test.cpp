// What smelt inspect says of a kernel's occupancy, against the driver's own answer on this GPU.
#include "inspect/occupancy.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "device/cuda/module.h"
#include "inspect/cubin.h"

namespace smelt::inspect {
namespace {

namespace cuda = device::cuda;

// PRESSURE values are alive at a time, STATIC_BYTES are declared, and BARRIERS named barriers are met.
constexpr const char* source = R"(
extern "C" __global__ void taken(float* out, const float* in, int n) {
  float v[PRESSURE];
#pragma unroll
  for (int i = 0; i < PRESSURE; ++i) v[i] = in[i * n + threadIdx.x];
#if STATIC_BYTES > 0
  __shared__ float kept[STATIC_BYTES / 4];
  for (int i = threadIdx.x; i < STATIC_BYTES / 4; i += blockDim.x) kept[i] = v[0];
  __syncthreads();
  v[0] += kept[n % (STATIC_BYTES / 4)];
#endif
#if BARRIERS > 1
  asm volatile("bar.sync %0, 32;" ::"n"(BARRIERS - 1) : "memory");
#endif
  for (int turn = 0; turn < n; ++turn) {
#pragma unroll
    for (int i = 0; i < PRESSURE; ++i) v[i] = v[i] * v[(i + 1) % PRESSURE] + v[(i + 7) % PRESSURE];
  }
#pragma unroll
  for (int i = 0; i < PRESSURE; ++i) out[i * n + threadIdx.x] = v[i];
}
)";

using MostBlocks = cuda::abi::Result (*)(int* blocks, cuda::abi::Function, int threads, size_t dynamic_shared);

TEST(GpuOccupancy, of_random_kernels_and_launches_is_the_drivers) {
  const std::shared_ptr<cuda::Device> device = cuda::Device::open(0);
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY);
  const auto most_blocks = reinterpret_cast<MostBlocks>(dlsym(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  ASSERT_NE(most_blocks, nullptr);
  const Multiprocessor& m = multiprocessor_of(device->info().arch);
  std::mt19937 random(24);
  const auto any = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  std::set<std::string> limiters;
  std::set<int> registers, answers;
  int compared = 0, run = 0;
  for (int kernel = 0; kernel < 25; ++kernel) {
    const int bytes = kernel % 3 ? 4 * any(1, 12 << 10) / (kernel % 2 ? 8 : 1) : 0;
    const std::vector<std::string> options = {
        "-DPRESSURE=" + std::to_string(any(8, 200)), "-DSTATIC_BYTES=" + std::to_string(bytes),
        "-DBARRIERS=" + std::to_string(kernel % 4 ? 1 : any(2, 16)), "--maxrregcount=" + std::to_string(8 * any(2, 31))};
    const auto cubin = std::make_shared<cuda::Cubin>(cuda::compile({"taken", source, options}, device->info().arch));
    const Image image = read_cubin(cubin->bytes);
    ASSERT_EQ(image.kernels.size(), 1u);
    const Kernel& taken = image.kernels[0];
    const cuda::Module module(device, cubin, "taken");
    const cuda::Device::Current current(*device);
    for (int launch = 0; launch < 10; ++launch) {
      Launch l{.threads = launch % 2 ? 32 * any(1, 32) : any(1, 1024),
               .registers = taken.registers.value(),
               .static_shared = taken.static_shared.value(),
               .barriers = taken.barriers.value()};
      const int room = static_cast<int>(m.shared_per_block - l.static_shared);
      l.dynamic_shared = launch % 3 ? any(0, room) / (1 << any(0, 5)) : 0;
      int theirs = -1;
      cuda::check(most_blocks(&theirs, module.function("taken").get(), l.threads, static_cast<size_t>(l.dynamic_shared)),
                  "asking the driver for blocks");
      const Occupancy ours = occupancy(m, l);
      EXPECT_EQ(ours.blocks, theirs) << l.threads << " threads, " << l.registers << " registers, " << l.static_shared << " + "
                                     << l.dynamic_shared << " bytes, " << l.barriers << " barriers";
      ++compared;
      run += theirs > 0;
      registers.insert(l.registers), answers.insert(theirs);
      if (ours.blocks > 0) limiters.insert(ours.limiter());
    }
  }
  EXPECT_GE(compared, 200);
  EXPECT_GT(run, 150) << "most of them are launches that run";
  EXPECT_GT(registers.size(), 10u);
  EXPECT_GT(answers.size(), 6u);
  EXPECT_TRUE(limiters.contains("registers") && limiters.contains("shared memory") && limiters.contains("warps"));
  std::string said;
  for (const std::string& l : limiters) said += (said.empty() ? "" : ", ") + l;
  RecordProperty("compared", compared);
  std::printf("%d launches of %zu register counts on %s, %d of which run; limited by %s\n", compared, registers.size(),
              device->info().name.c_str(), run, said.c_str());
}

}  // namespace
}  // namespace smelt::inspect
