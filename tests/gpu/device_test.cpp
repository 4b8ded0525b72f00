// The device layer on a GPU.
#include "device/cuda/device.h"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "base/error.h"
#include "device/cuda/module.h"

namespace smelt::device::cuda {
namespace {

using ::testing::HasSubstr;

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override { device_ = Device::open(0); }  // no GPU is a failure here: these tests are run where there is one
  std::shared_ptr<Device> device_;
};

Source twice() {
  return {"twice",
          "extern \"C\" __global__ void twice(float* y, const float* x, int n) {\n"
          "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
          "  if (i < n) y[i] = 2 * x[i];\n"
          "}\n",
          {}};
}

TEST_F(Gpu, says_what_it_is) {
  const DeviceInfo& i = device_->info();
  EXPECT_FALSE(i.name.empty());
  EXPECT_EQ(i.uuid.size(), 40u);
  EXPECT_GE(i.major, 7);
  EXPECT_GE(i.driver, oldest_driver);
  EXPECT_GT(i.clock_mhz, 100);
  EXPECT_GT(i.bandwidth, 5e4);  // 50 GB/s … 20 TB/s
  EXPECT_LT(i.bandwidth, 2e7);
  EXPECT_GT(i.multiprocessors, 0);
  EXPECT_GT(i.shared_per_multiprocessor, i.shared_per_block);
  EXPECT_GE(i.memory_bytes, device_->free_bytes());
  EXPECT_EQ(Device::open(0), device_);
  EXPECT_THROW(Device::open(1000), Error);
}

TEST_F(Gpu, is_what_the_table_says_of_its_architecture) {
  const DeviceInfo &i = device_->info(), t = info_of_arch(i.arch);
  EXPECT_EQ(t.shared_per_block, i.shared_per_block);
  EXPECT_EQ(t.shared_per_multiprocessor, i.shared_per_multiprocessor);
  EXPECT_EQ(t.reserved_shared_per_block, i.reserved_shared_per_block);
  EXPECT_EQ(t.registers_per_multiprocessor, i.registers_per_multiprocessor);
  EXPECT_EQ(t.threads_per_multiprocessor, i.threads_per_multiprocessor);
}

TEST_F(Gpu, tells_device_memory_from_host_memory_on_any_thread) {
  const auto memory = device_->allocate(1 << 20, "a tensor");
  const PinnedMemory pinned(device_, 4096);
  const std::vector<char> own(4096);
  int inside = -2, of_pinned = -2, of_own = -2, of_null = -2;
  std::jthread([&] {  // with no context current
    inside = device_of(reinterpret_cast<const void*>(memory->address() + 12345));
    of_pinned = device_of(pinned.data());
    of_own = device_of(own.data());
    of_null = device_of(nullptr);
  })
      .join();
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(of_pinned, -1);
  EXPECT_EQ(of_own, -1);
  EXPECT_EQ(of_null, -1);
}

TEST_F(Gpu, runs_a_compiled_kernel) {
  constexpr int n = 1000;
  const Module module(device_, std::make_shared<Cubin>(compile(twice(), device_->info().arch)), "twice");
  const KernelFunction& kernel = module.function("twice");
  const Stream stream(device_);
  const auto x = device_->allocate(n * 4, "x"), y = device_->allocate(n * 4, "y");
  const PinnedMemory host(device_, n * 4);
  auto* values = static_cast<float*>(host.data());
  std::iota(values, values + n, 1.f);
  const Device::Current current(*device_);
  check(driver().copy_to_device(x->address(), values, n * 4, stream.get()), "copying");
  auto out = y->address(), in = x->address();
  int count = n;
  void* parameters[] = {&out, &in, &count};
  kernel.launch({.grid = {4, 1, 1}, .block = {256, 1, 1}}, parameters, stream.get());
  check(driver().copy_to_host(values, y->address(), n * 4, stream.get()), "copying");
  stream.synchronize();
  for (int i = 0; i < n; ++i) ASSERT_EQ(values[i], 2.f * static_cast<float>(i + 1));
  EXPECT_THROW(module.function("nope"), Error);
}

TEST_F(Gpu, times_with_events) {
  const Stream stream(device_);
  const Event begin(device_), end(device_);
  const auto memory = device_->allocate(256 << 20, "a fill");
  begin.record(stream.get());
  const Device::Current current(*device_);
  check(driver().fill_bytes(memory->address(), 1, 256 << 20, stream.get()), "filling");
  end.record(stream.get());
  end.synchronize();
  EXPECT_GT(end.since(begin), 5);  // at most 50 TB/s
  EXPECT_LT(end.since(begin), 50000);
}

TEST_F(Gpu, says_what_a_wrong_launch_was) {
  const Module module(device_, std::make_shared<Cubin>(compile(twice(), device_->info().arch)), "twice");
  const Stream stream(device_);
  void* parameters[] = {nullptr, nullptr, nullptr};
  try {
    module.function("twice").launch({.block = {2048, 1, 1}}, parameters, stream.get());
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("launching twice on 1x1x1 blocks of 2048x1x1 threads"));
  }
}

TEST_F(Gpu, gives_freed_memory_out_again) {
  const int64_t held = device_->held_bytes(), used = device_->used_bytes();
  abi::Address first = 0;
  {
    const auto a = device_->allocate(10 << 20, "a");
    first = a->address();
    EXPECT_EQ(first % 256, 0u);
    EXPECT_EQ(device_->used_bytes() - used, 10 << 20);
  }
  EXPECT_EQ(device_->used_bytes(), used);
  const auto b = device_->allocate((10 << 20) - 5, "b");
  EXPECT_EQ(b->address(), first);
  EXPECT_EQ(b->bytes(), (10 << 20) - 5);
  EXPECT_EQ(device_->held_bytes() - held, 10 << 20);
}

/// Fills of 256 MiB, a millisecond or more of them.
void keep_busy(Device& device, abi::Stream stream, const Memory& memory) {
  const Device::Current current(device);
  for (int i = 0; i < 40; ++i)
    check(driver().fill_bytes(memory.address(), 1, static_cast<size_t>(memory.bytes()), stream), "filling");
}

TEST_F(Gpu, memory_goes_to_other_streams_after_those_that_used_it) {
  const Stream first(device_), second(device_);
  const auto large = device_->allocate(256 << 20, "what takes time");
  const int64_t size = 3 << 20;
  abi::Address address = 0;
  {
    const auto a = device_->allocate(size, "a", first.get());
    address = a->address();
    keep_busy(*device_, first.get(), *large);
  }
  const auto elsewhere = device_->allocate(size, "b"), other_stream = device_->allocate(size, "c", second.get());
  EXPECT_NE(elsewhere->address(), address);
  EXPECT_NE(other_stream->address(), address);
  {
    const auto same_stream = device_->allocate(size, "d", first.get());
    EXPECT_EQ(same_stream->address(), address);
  }
  first.synchronize();
  EXPECT_EQ(device_->allocate(size, "e")->address(), address);
}

TEST_F(Gpu, what_is_kept_goes_after_the_work_of_its_stream) {
  const Stream stream(device_);
  const auto large = device_->allocate(256 << 20, "what takes time");
  auto thing = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = thing;
  keep_busy(*device_, stream.get(), *large);
  device_->keep(std::move(thing), stream.get());
  device_->allocate(1 << 20, "a");  // each allocation lets go of what is done
  EXPECT_FALSE(seen.expired());
  stream.synchronize();
  device_->allocate(1 << 20, "b");
  EXPECT_TRUE(seen.expired());
}

TEST_F(Gpu, memory_comes_and_goes_during_a_capture) {
  const Stream stream(device_);
  const Device::Current current(*device_);
  constexpr abi::CaptureMode global{};  // that of PyTorch: all threads are refused what cannot be captured
  device_->trim();                      // so that the driver is asked, not the pool
  check(driver().stream_begin_capture(stream.get(), global), "capturing");
  EXPECT_NO_THROW(device_->allocate(1 << 20, "a"));
  device_->trim();
  abi::Graph graph = nullptr;
  ASSERT_EQ(driver().stream_end_capture(stream.get(), &graph), abi::success);
  driver().graph_destroy(graph);
}

TEST_F(Gpu, a_stream_follows_what_others_did_with_memory) {
  const Stream first(device_), second(device_);
  const auto large = device_->allocate(256 << 20, "what takes time");
  const auto a = device_->allocate(1 << 20, "a", first.get());
  keep_busy(*device_, first.get(), *large);
  const void* inside = reinterpret_cast<const void*>(a->address() + 4096);
  std::vector<unsigned char> bytes(1 << 20, 0);
  const Device::Current current(*device_);
  check(driver().fill_bytes(a->address(), 7, bytes.size(), first.get()), "filling");
  device_->follow(second.get(), inside);
  const Event end(device_, false);
  end.record(second.get());
  EXPECT_FALSE(end.passed()) << "the second stream waits for the first";
  check(driver().copy_to_host(bytes.data(), a->address(), bytes.size(), second.get()), "copying");
  second.synchronize();
  EXPECT_TRUE(end.passed());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 7), static_cast<int64_t>(bytes.size()));
  check(driver().fill_bytes(a->address(), 9, bytes.size(), second.get()), "filling");
  device_->wait_for(inside);
  EXPECT_FALSE(is_capturing(second.get()));
  int own = 0;
  device_->follow(first.get(), &own);  // memory of others: nothing
}

TEST_F(Gpu, trimming_waits_for_streams_that_use_freed_memory) {
  const Stream stream(device_);
  const auto large = device_->allocate(256 << 20, "what takes time");
  {
    const auto a = device_->allocate(5 << 20, "a", stream.get());
    keep_busy(*device_, stream.get(), *large);
  }
  const int64_t held = device_->held_bytes();
  device_->trim();
  EXPECT_LE(device_->held_bytes(), held - (5 << 20));
  EXPECT_EQ(driver().stream_synchronize(stream.get()), abi::success);
}

TEST_F(Gpu, says_how_much_memory_there_was) {
  for (const bool limited : {false, true}) {
    if (limited) device_->set_limit(device_->held_bytes() + (1 << 20));
    try {
      device_->allocate(limited ? 64 << 20 : int64_t{1} << 50, "the arena of activations");
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("no memory for the arena of activations: "));
      EXPECT_THAT(e.what(), HasSubstr(" free"));
      EXPECT_EQ(std::string(e.what()).find("limit") != std::string::npos, limited) << e.what();
    }
  }
  device_->set_limit(0);
}

TEST_F(Gpu, serves_many_threads) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  CubinStore store;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Module module(device_, store.get(twice(), device_->info().arch), "twice");
      const Stream stream(device_);
      const Device::Current current(*device_);
      for (int round = 0; round < 50; ++round) {
        const int n = 1 + 37 * (round + t);
        const auto x = device_->allocate(n * 4, "x");
        std::vector<float> values(static_cast<size_t>(n), static_cast<float>(t + 1));
        check(driver().copy_to_device(x->address(), values.data(), n * 4, stream.get()), "copying");
        auto at = x->address();
        int count = n;
        void* parameters[] = {&at, &at, &count};
        module.function("twice").launch({.grid = {static_cast<unsigned>(n + 255) / 256, 1, 1}, .block = {256, 1, 1}}, parameters,
                                        stream.get());
        check(driver().copy_to_host(values.data(), x->address(), n * 4, stream.get()), "copying");
        stream.synchronize();
        for (const float v : values) wrong += v != 2.f * static_cast<float>(t + 1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smelt::device::cuda
