// Kernels built to be of one kind each get its name, by the GPU's counters.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "device/cuda/counters.h"
#include "device/cuda/module.h"
#include "profile/counted.h"
#include "profile/counted_kernels.h"
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

/// The kernels on a GPU, in the order of `kinds`.
class Kinds {
 public:
  struct Kind {
    const char* kernel;
    LaunchShape shape;
    std::vector<void*> parameters;
    Limiter limiter;
  };

  explicit Kinds(std::shared_ptr<Device> device)
      : device_(std::move(device)),
        module_(device_, std::make_shared<Cubin>(compile({"kinds", source, {}}, device_->info().arch)), "kinds"),
        in_(device_->allocate(int64_t{n} * stride * 4, "in")),
        out_(device_->allocate(int64_t{n} * stride * 4, "out")),
        next_(device_->allocate(4, "next")),
        stream_(device_),
        in_at_(in_->address()),
        out_at_(out_->address()),
        next_at_(next_->address()) {
    const auto sms = static_cast<unsigned>(device_->info().multiprocessors);
    const LaunchShape many{.grid = {sms * 8, 1, 1}, .block = {256, 1, 1}}, few{.grid = {sms * 2, 1, 1}, .block = {256, 1, 1}};
    kinds_ = {{"chain", {.block = {32, 1, 1}}, {&out_at_, &steps_}, Limiter::latency},
              {"strided", many, {&out_at_, &in_at_, &n_, &stride_}, Limiter::memory},
              {"tensor", few, {&out_at_, &loops_}, Limiter::compute},
              {"divergent", many, {&out_at_, &items_}, Limiter::compute},
              {"queued", many, {&out_at_, &items_, &next_at_}, Limiter::compute},
              {"empty", {.block = {32, 1, 1}}, {}, Limiter::launch}};
  }
  Kinds(const Kinds&) = delete;  // the kernels' parameters lie here

  const std::vector<Kind>& kinds() const { return kinds_; }
  void run() {
    const Device::Current current(*device_);
    const int zero = 0;
    check(driver().copy_to_device(next_at_, &zero, sizeof zero, stream_.get()), "resetting");
    for (const Kind& k : kinds_)
      module_.function(k.kernel).launch(k.shape, const_cast<void* const*>(k.parameters.data()), stream_.get());
    stream_.synchronize();
  }

 private:
  static constexpr int n = 1 << 22, stride = 16;

  std::shared_ptr<Device> device_;
  Module module_;
  std::shared_ptr<Memory> in_, out_, next_;
  Stream stream_;
  abi::Address in_at_, out_at_, next_at_;
  int steps_ = 20000, n_ = n, stride_ = stride, loops_ = 4000, items_ = 1 << 20;
  std::vector<Kind> kinds_;
};

void expect_their_names(const Kinds& k, const std::vector<std::vector<double>>& values, const char* whose) {
  ASSERT_EQ(values.size(), k.kinds().size()) << whose;
  std::vector<Counted> all;
  fmt::print("{}:\n", whose);
  for (size_t i = 0; i < values.size(); ++i) {
    const Counted c = all.emplace_back(counted(values[i]));
    const Limiter limiter = limiter_of(c, 2);
    fmt::print("{:10} {:>8.1f} µs {:8} {}; DRAM {:.3g} MB, L2 {:.3g} MB\n", k.kinds()[i].kernel, c.us, name(limiter),
               because(c, limiter), c.dram_bytes * 1e-6, c.l2_bytes * 1e-6);
    EXPECT_EQ(name(limiter), name(k.kinds()[i].limiter)) << k.kinds()[i].kernel << ": " << because(c, limiter);
  }
  EXPECT_LT(all[3].threads, 12) << "most threads wait for one";
  EXPECT_GT(all[4].threads, 24) << "a queue keeps them busy";
  EXPECT_LT(all[4].us, all[3].us);
  // `strided` reads and writes a sector of 32 bytes for each of 4 Mi elements.
  EXPECT_GT(all[1].dram_bytes, 0.9 * (1 << 22) * 64);
  EXPECT_GE(all[1].l2_bytes, all[1].dram_bytes * 0.5);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(std::isfinite(all[i].dram_bytes) && std::isfinite(all[i].l2_bytes)) << k.kinds()[i].kernel;
}

TEST(GpuLimiter, kernels_built_to_be_of_a_kind_get_its_name) {
  const auto device = Device::open(0);
  if (device->info().major < 8) GTEST_SKIP() << "an instruction of sm_80";
  Kinds k(device);
  for (const auto& [replay, whose] : {std::pair{Replay::kernel, "CUPTI runs kernels again"}, {Replay::user, "the caller does"}}) {
    try {
      const auto values = device::cuda::count(
          device, counted_metrics(), k.kinds().size(), [&] { k.run(); }, replay);
      expect_their_names(k, values, whose);
    } catch (const Error& e) {
      if (e.code() != ExitCode::unsupported) throw;
      GTEST_SKIP() << e.what() << "\n" << e.next();
    }
  }
}

TEST(GpuLimiter, a_name_that_the_gpu_does_not_have_leaves_those_behind_it) {
  const auto device = Device::open(0);
  if (device->info().major < 8) GTEST_SKIP() << "an instruction of sm_80";
  Kinds k(device);
  try {
    const auto values = device::cuda::count(
        device, {"gpu__time_duration.sum", "no__such_metric.sum", "smsp__inst_executed.sum"}, k.kinds().size(), [&] { k.run(); },
        Replay::user);
    ASSERT_EQ(values.size(), k.kinds().size());
    for (const std::vector<double>& v : values) {
      EXPECT_GT(v.at(0), 0);
      EXPECT_TRUE(std::isnan(v.at(1)));
      EXPECT_GT(v.at(2), 0);
    }
  } catch (const Error& e) {
    if (e.code() != ExitCode::unsupported) throw;
    GTEST_SKIP() << e.what() << "\n" << e.next();
  }
}

/// What Nsight Compute watches in the test below: a process of its own, as in a profile.
TEST(GpuLimiter, DISABLED_is_watched) {
  const auto device = Device::open(0);
  Kinds k(device);
  k.run();
  const Watched watched(device);
  k.run();
}

TEST(GpuLimiter, kernels_built_to_be_of_a_kind_get_its_name_from_nsight_compute) {
  const auto device = Device::open(0);
  if (device->info().major < 8) GTEST_SKIP() << "an instruction of sm_80";
  const Kinds k(device);
  std::vector<std::vector<double>> values;
  try {
    values = count_by_nsight_compute({std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=GpuLimiter.DISABLED_is_watched"},
                                     k.kinds().size() + 1);
  } catch (const Error& e) {  // not installed, or counters are the administrator's
    GTEST_SKIP() << e.what();
  }
  expect_their_names(k, values, "Nsight Compute");
}

}  // namespace
}  // namespace smelt::profile
