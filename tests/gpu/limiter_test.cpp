// Kernels built to be of one kind each get its name, by the GPU's counters.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "device/cuda/counters.h"
#include "device/cuda/module.h"
#include "profile/counted.h"
#include "smelt/tensor.h"

namespace smelt::profile {
namespace {

using namespace device::cuda;

constexpr const char* source = R"(
// A chain of dependent products in double precision, by one warp.
extern "C" __global__ void chain(double* out, int n) {
  double x = threadIdx.x;
  for (int i = 0; i < n; ++i) x = x * 1.0000001 + 0.5;
  out[threadIdx.x] = x;
}
// Each thread reads and writes a sector of its own.
extern "C" __global__ void strided(float* out, const float* in, int n, int stride) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[(size_t)i * stride] = in[(size_t)i * stride];
}
// Products by the tensor cores, of what registers hold.
extern "C" __global__ void tensor(float* out, int n) {
  unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, 5};
  float c[4][4] = {};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                   : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0;
  for (int j = 0; j < 4; ++j) for (int k = 0; k < 4; ++k) sum += c[j][k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// One item of 32 is 256 times as much work as the others.
__device__ int work_of(int item) { return (item * 2654435761u >> 27) == 0 ? 4096 : 16; }
extern "C" __global__ void divergent(float* out, int items) {
  for (int item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
    float x = item;
    for (int left = work_of(item); left > 0; --left) x = x * 1.0001f + 0.5f;
    out[item] = x;
  }
}
// The same, where a thread that is done takes the next item.
extern "C" __global__ void queued(float* out, int items, int* next) {
  int item = atomicAdd(next, 1), left = item < items ? work_of(item) : 0;
  float x = item;
  while (__any_sync(~0u, item < items)) {
    for (int i = 0; i < 16; ++i) x = x * 1.0001f + 0.5f;
    left -= 16;
    if (left <= 0 && item < items) {
      out[item] = x;
      item = atomicAdd(next, 1), left = item < items ? work_of(item) : 0, x = item;
    }
  }
}
extern "C" __global__ void empty() {}
)";

TEST(GpuLimiter, kernels_built_to_be_of_a_kind_get_its_name) {
  const auto device = Device::open(0);
  if (device->info().major < 8) GTEST_SKIP() << "an instruction of sm_80";
  const Module module(device, std::make_shared<Cubin>(compile({"kinds", source, {}}, device->info().arch)), "kinds");
  constexpr int n = 1 << 22, stride = 16, items = 1 << 20;
  const auto in = device->allocate(int64_t{n} * stride * 4, "in"), out = device->allocate(int64_t{n} * stride * 4, "out");
  const auto next = device->allocate(4, "next");
  const Stream stream(device);
  const Device::Current current(*device);
  const auto sms = static_cast<unsigned>(device->info().multiprocessors);
  abi::Address in_at = in->address(), out_at = out->address(), next_at = next->address();
  int steps = 20000, count_of = n, wide = stride, loops = 4000, many = items, zero = 0;
  struct Kind {
    const char* kernel;
    LaunchShape shape;
    std::vector<void*> parameters;
    Limiter limiter;
  };
  const Kind kinds[] = {
      {"chain", {.block = {32, 1, 1}}, {&out_at, &steps}, Limiter::latency},
      {"strided", {.grid = {sms * 8, 1, 1}, .block = {256, 1, 1}}, {&out_at, &in_at, &count_of, &wide}, Limiter::memory},
      {"tensor", {.grid = {sms * 2, 1, 1}, .block = {256, 1, 1}}, {&out_at, &loops}, Limiter::compute},
      {"divergent", {.grid = {sms * 8, 1, 1}, .block = {256, 1, 1}}, {&out_at, &many}, Limiter::compute},
      {"queued", {.grid = {sms * 8, 1, 1}, .block = {256, 1, 1}}, {&out_at, &many, &next_at}, Limiter::compute},
      {"empty", {.block = {32, 1, 1}}, {}, Limiter::launch}};
  const auto run = [&] {
    check(driver().copy_to_device(next_at, &zero, sizeof zero, stream.get()), "resetting");
    for (const Kind& k : kinds)
      module.function(k.kernel).launch(k.shape, const_cast<void* const*>(k.parameters.data()), stream.get());
    stream.synchronize();
  };
  for (const auto& [replay, whose] : {std::pair{Replay::kernel, "CUPTI runs kernels again"}, {Replay::user, "the caller does"}}) {
    std::vector<std::vector<double>> values;
    try {
      values = device::cuda::count(device, counted_metrics(), std::size(kinds), run, replay);
    } catch (const Error& e) {
      if (e.code() != ExitCode::unsupported) throw;
      GTEST_SKIP() << e.what() << "\n" << e.next();
    }
    ASSERT_EQ(values.size(), std::size(kinds)) << whose;
    std::vector<Counted> all;
    fmt::print("{}:\n", whose);
    for (size_t i = 0; i < std::size(kinds); ++i) {
      const Counted c = all.emplace_back(counted(values[i]));
      const Limiter limiter = limiter_of(c, 2);
      fmt::print("{:10} {:>8.1f} µs {:8} {}\n", kinds[i].kernel, c.us, name(limiter), because(c, limiter));
      EXPECT_EQ(name(limiter), name(kinds[i].limiter)) << kinds[i].kernel << ": " << because(c, limiter);
    }
    EXPECT_LT(all[3].threads, 12) << "most threads wait for one";
    EXPECT_GT(all[4].threads, 24) << "a queue keeps them busy";
    EXPECT_LT(all[4].us, all[3].us);
    // An H100's CUPTI 13.0 gave no number for the memories' bytes.
    if (std::isfinite(all[1].dram_bytes)) {
      EXPECT_GT(all[1].dram_bytes, 1e6);
    }
    if (std::isfinite(all[1].l2_bytes)) {
      EXPECT_GE(all[1].l2_bytes, all[1].dram_bytes * 0.5);
    }
  }
}

}  // namespace
}  // namespace smelt::profile
