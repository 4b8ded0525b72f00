// What CUPTI and NVML say of what a GPU does.
#include "device/cuda/activity.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <thread>

#include "base/error.h"
#include "device/cuda/abi/cupti.h"
#include "device/cuda/graph.h"
#include "device/cuda/library.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/nvtx.h"

namespace smelt::device::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuActivity : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = Device::open(0);
    ASSERT_EQ(activity_missing(), "");
    const Source source{"two",
                        "extern \"C\" __global__ void first(float* x, int n) {\n"
                        "  __shared__ float tile[256];\n"
                        "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
                        "  tile[threadIdx.x] = i < n ? x[i] : 0.f;\n  __syncthreads();\n"
                        "  if (i < n) x[i] = tile[255 - threadIdx.x];\n}\n"
                        "extern \"C\" __global__ void second(float* x, int n) {\n"
                        "  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) x[i] += 1.f;\n}\n",
                        {}};
    module_ = std::make_unique<Module>(device_, std::make_shared<Cubin>(compile(source, device_->info().arch)), "two");
    memory_ = device_->allocate(n * 4, "x");
  }

  void first(abi::Stream stream, int64_t shared = 0) const {
    launch("first", {.grid = {n / 256, 1, 1}, .block = {256, 1, 1}, .shared_bytes = shared}, stream);
  }
  void second(abi::Stream stream) const { launch("second", {.grid = {16, 2, 3}, .block = {128, 1, 1}}, stream); }
  void nothing(abi::Stream stream) const { launch("second", {.block = {128, 1, 1}}, stream, 0); }  // a block without an element
  void fill(abi::Stream stream) const {
    const Device::Current current(*device_);
    check(driver().fill_bytes(memory_->address(), 0, n * 4, stream), "filling");
  }

  static constexpr unsigned n = 1 << 20;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Module> module_;
  std::shared_ptr<Memory> memory_;

 private:
  void launch(const char* kernel, const LaunchShape& shape, abi::Stream stream, int count = n) const {
    auto at = memory_->address();
    void* parameters[] = {&at, &count};
    module_->function(kernel).launch(shape, parameters, stream);
  }
};

std::vector<std::string> names(const std::vector<Activity>& all) {
  std::vector<std::string> list;
  for (const Activity& a : all) list.push_back(a.name);
  return list;
}

TEST_F(GpuActivity, sees_kernels_copies_and_fills_in_their_order) {
  const Stream stream(device_);
  const PinnedMemory host(device_, 4096);
  ActivityTrace trace(device_);
  fill(stream.get());
  first(stream.get(), 1024);
  {
    const Device::Current current(*device_);
    check(driver().copy_to_host(host.data(), memory_->address(), 4096, stream.get()), "copying");
    check(driver().copy_to_device(memory_->address(), host.data(), 2048, stream.get()), "copying");
    check(driver().copy_on_device(memory_->address() + 65536, memory_->address(), 1024, stream.get()), "copying");
  }
  second(stream.get());
  const std::vector<Activity> all = trace.stop();  // nothing waited before
  ASSERT_THAT(names(all),
              ElementsAre("fill", "first", "copy device to host", "copy host to device", "copy on the device", "second"));
  EXPECT_EQ(all[0].kind, Activity::Kind::fill);
  EXPECT_EQ(all[0].bytes, n * 4);
  EXPECT_EQ(all[2].kind, Activity::Kind::copy);
  EXPECT_EQ(all[2].bytes, 4096);
  EXPECT_EQ(all[3].bytes, 2048);
  const Activity &k = all[1], &s = all[5];
  EXPECT_EQ(k.kind, Activity::Kind::kernel);
  EXPECT_THAT(k.grid, ElementsAre(n / 256, 1, 1));
  EXPECT_THAT(k.block, ElementsAre(256, 1, 1));
  EXPECT_THAT(s.grid, ElementsAre(16, 2, 3));
  EXPECT_EQ(k.static_shared_bytes, 1024);
  EXPECT_EQ(k.dynamic_shared_bytes, 1024);
  EXPECT_EQ(s.static_shared_bytes + s.dynamic_shared_bytes, 0);
  EXPECT_GE(k.registers, module_->function("first").resources().registers);
  std::set<uint32_t> correlations;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].device, 0);
    EXPECT_EQ(all[i].stream, all[0].stream);
    EXPECT_EQ(all[i].graph_node, 0u);
    EXPECT_LT(all[i].begin_ns, all[i].end_ns);
    EXPECT_LT(all[i].end_ns - all[i].begin_ns, 10'000'000u) << all[i].name;
    if (i > 0) {
      EXPECT_GE(all[i].begin_ns, all[i - 1].end_ns) << all[i].name;
    }
    correlations.insert(all[i].correlation);
  }
  EXPECT_EQ(correlations.size(), all.size());
}

TEST_F(GpuActivity, sees_the_nodes_of_a_graph_made_before_it) {
  const CapturedGraph graph(device_, [&](abi::Stream stream) {
    first(stream);
    fill(stream);
    second(stream);
    first(stream);
  });
  const Stream stream(device_);
  graph.launch(stream.get());
  stream.synchronize();
  ActivityTrace trace(device_);
  for (int i = 0; i < 3; ++i) graph.launch(stream.get());
  const std::vector<Activity> all = trace.stop();
  ASSERT_EQ(all.size(), 12u) << ::testing::PrintToString(names(all));
  std::set<uint64_t> nodes;
  for (size_t i = 0; i < all.size(); ++i) {
    // Where CUPTI was not there yet when the graph was made, it says which kernel of the driver's filled.
    if (i % 4 == 1) {
      EXPECT_THAT(all[i].name, AnyOf("fill", HasSubstr("memset")));
    } else {
      EXPECT_EQ(all[i].name, (std::array{"first", "", "second", "first"})[i % 4]);
    }
    EXPECT_NE(all[i].graph_node, 0u);
    EXPECT_EQ(all[i].graph_node, all[i % 4].graph_node);
    EXPECT_EQ(all[i].correlation, all[i / 4 * 4].correlation);
    nodes.insert(all[i].graph_node);
  }
  EXPECT_EQ(nodes.size(), 4u);
  EXPECT_NE(all[0].correlation, all[4].correlation);
}

TEST_F(GpuActivity, loses_nothing_of_many_launches_from_several_threads) {
  constexpr int threads = 4, launches = 20000;  // several buffers full
  ActivityTrace trace(device_);
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&] {
        const Stream stream(device_);
        for (int i = 0; i < launches; ++i) {
          nothing(stream.get());
          if (i % 1000 == 0) stream.synchronize();
        }
        stream.synchronize();
      });
  }
  const std::vector<Activity> all = trace.stop();
  EXPECT_EQ(all.size(), static_cast<size_t>(threads * launches));
  std::map<int, int> of_stream;
  for (const Activity& a : all) ++of_stream[a.stream];
  for (const auto& [stream, count] : of_stream) EXPECT_EQ(count % launches, 0) << stream;  // a number may be given out again
}

TEST_F(GpuActivity, is_there_once_at_a_time_and_again) {
  const Stream stream(device_);
  for (int round = 0; round < 3; ++round) {
    ActivityTrace trace(device_);
    try {
      ActivityTrace second(device_);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("going on in this process already"));
    }
    first(stream.get());
    if (round == 1) continue;  // left without a stop
    EXPECT_THAT(names(trace.stop()), ElementsAre("first"));
    EXPECT_THROW(trace.stop(), Error);
  }
  first(stream.get());  // seen by none
  ActivityTrace trace(device_);
  EXPECT_TRUE(trace.stop().empty());
}

TEST_F(GpuActivity, says_that_another_profiler_is_there) {
  ActivityTrace(device_).stop();  // CUPTI is open
  const Library library("CUPTI", {"libcupti.so.13", "libcupti.so.12"}, "");
  abi::Cupti cupti;
  std::string missing;
  library.load(cupti.subscribe, "cuptiSubscribe", missing);
  library.load(cupti.unsubscribe, "cuptiUnsubscribe", missing);
  ASSERT_EQ(missing, "");
  abi::CuptiSubscriber other = nullptr;
  ASSERT_EQ(cupti.subscribe(
                &other, [](void*, int, uint32_t, const void*) {}, nullptr),
            abi::cupti_success);
  try {
    ActivityTrace trace(device_);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("another profiler watches this process"));
  }
  ASSERT_EQ(cupti.unsubscribe(other), abi::cupti_success);
  EXPECT_TRUE(ActivityTrace(device_).stop().empty());
}

// CUPTI is one of the tools that listen to NVTX.
TEST_F(GpuActivity, names_its_ranges_to_nvidias_tools) {
  const Library library("CUPTI", {"libcupti.so.13", "libcupti.so.12"}, "");
  abi::Cupti cupti;
  abi::CuptiResult (*enable_domain)(uint32_t enable, abi::CuptiSubscriber subscriber, int domain) = nullptr;
  std::string missing;
  library.load(cupti.subscribe, "cuptiSubscribe", missing);
  library.load(cupti.unsubscribe, "cuptiUnsubscribe", missing);
  library.load(enable_domain, "cuptiEnableDomain", missing);
  abi::NvtxInitialize tool = nullptr;
  library.load(tool, "InitializeInjectionNvtx2", missing);
  ASSERT_EQ(missing, "");
  struct RangeCall {
    const char* function;
    const void* parameters;
  };  // the beginning of CUpti_NvtxData
  static std::vector<std::string> heard;
  const abi::CuptiCallback hear = [](void*, int, uint32_t, const void* data) {
    heard.push_back(static_cast<const RangeCall*>(data)->function);
  };
  abi::CuptiSubscriber subscriber = nullptr;
  ASSERT_EQ(cupti.subscribe(&subscriber, hear, nullptr), abi::cupti_success);
  ASSERT_EQ(enable_domain(1, subscriber, 5), abi::cupti_success);  // CUPTI_CB_DOMAIN_NVTX
  EXPECT_TRUE(listen_to_ranges(tool));
  {
    const NamedRange outer("layer");
    const NamedRange inner("conv_1");
  }
  EXPECT_EQ(cupti.unsubscribe(subscriber), abi::cupti_success);
  EXPECT_THAT(heard, ElementsAre("nvtxDomainCreateA", "nvtxDomainRangePushEx", "nvtxDomainRangePushEx", "nvtxDomainRangePop",
                                 "nvtxDomainRangePop"));
}

TEST(GpuState, says_what_the_gpu_does) {
  const auto device = Device::open(0);
  ASSERT_EQ(nvml_missing(), "");
  const GpuState s = read_state(device->info().uuid);
  ASSERT_TRUE(s.clock_mhz && s.max_clock_mhz && s.memory_clock_mhz && s.max_memory_clock_mhz);
  EXPECT_GT(*s.clock_mhz, 100);
  EXPECT_LE(*s.clock_mhz, *s.max_clock_mhz);
  EXPECT_LE(*s.memory_clock_mhz, *s.max_memory_clock_mhz);
  EXPECT_NEAR(*s.max_clock_mhz, device->info().clock_mhz, 0.1 * *s.max_clock_mhz);
  ASSERT_TRUE(s.celsius && s.watts && s.watts_limit && s.busy_percent);
  EXPECT_GT(*s.celsius, 5);
  EXPECT_LT(*s.celsius, 110);
  EXPECT_GT(*s.watts, 5);
  EXPECT_LT(*s.watts, 1.2 * *s.watts_limit);
  EXPECT_GE(*s.busy_percent, 0);
  EXPECT_LE(*s.busy_percent, 100);
  for (const GpuProcess& p : s.processes) EXPECT_GT(p.pid, 0);
  EXPECT_THROW(read_state("GPU-00000000-0000-0000-0000-000000000000"), Error);
}

TEST(GpuState, sees_the_gpu_at_work) {
  const auto device = Device::open(0);
  const auto memory = device->allocate(1 << 30, "a fill");
  const Stream stream(device);
  const Device::Current current(*device);
  GpuState s;
  for (int round = 0; round < 300 && (s.idle || s.busy_percent.value_or(0) < 50); ++round) {  // a sample is up to 1 s
    for (int i = 0; i < 20; ++i) check(driver().fill_bytes(memory->address(), 1, 1 << 30, stream.get()), "filling");
    if (round % 10 == 9) s = read_state(device->info().uuid);
    stream.synchronize();
  }
  EXPECT_FALSE(s.idle);
  EXPECT_GE(s.busy_percent.value_or(0), 50);
}

}  // namespace
}  // namespace smelt::device::cuda
