// A process after an error that loses its work on the GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "device/cuda/cubins.h"
#include "device/cuda/module.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

namespace cuda = device::cuda;

/// A convolution and a product, so that NVIDIA's libraries are in use too.
Graph conv_and_product() {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 32, 16, 16}));
  const ValueId w = b.constant("w", random_tensor({32, 32, 3, 3}, 1)), m = b.constant("m", random_tensor({16, 64}, 2));
  const std::vector<int64_t> pads(4, 1);
  const ValueId conv = b.node("conv", "Conv", {x, w}, to_sym({1, 32, 16, 16}), DType::f32, {{"pads", pads}});
  b.output(b.node("product", "MatMul", {conv, m}, to_sym({1, 32, 16, 64})));
  return std::move(b.g);
}

/// Leaves the context unusable: a kernel writes where nothing is.
void write_astray() {
  const auto device = cuda::Device::open(0);
  const cuda::Source source{"astray", "extern \"C\" __global__ void astray(int* p) { *p = 1; }", {}};
  const cuda::Module module(device, cuda::CubinStore().get(source, device->info().arch), "astray");
  const cuda::Stream stream(device);
  cuda::abi::Address nowhere = 16;
  void* parameters[] = {&nowhere};
  module.function("astray").launch({.grid = {1, 1, 1}, .block = {1, 1, 1}}, parameters, stream.get());
  EXPECT_THROW(stream.synchronize(), Error);
}

/// An exit status: 7 where the session refused to run each time. Destroys it, its plan and the libraries' handles.
int lose_the_device() {
  Options options;
  options.device = "gpu";
  options.use_cache = false;
  Session session(Plan::build(conv_and_product(), options));
  const std::map<std::string, Tensor> feeds{{"x", random_tensor({1, 32, 16, 16}, 3)}};
  session.run(feeds);
  write_astray();
  int refused = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      session.run(feeds);
    } catch (const Error& e) {
      refused += std::string(e.what()).find("is lost since") != std::string::npos;
    }
  }
  return refused == 3 ? 7 : 8;
}

TEST(GpuLostDeathTest, sessions_refuse_to_run_and_the_process_ends_in_order) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int i = 0; i < 4; ++i) EXPECT_EXIT(std::exit(lose_the_device()), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace smelt::run
