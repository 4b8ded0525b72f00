// Tiles of windows that slide (src/kernels/conv/sliding.cuh) that hold the most sums a thread, compiled without a GPU: what is
// offered neither spills nor exceeds what ptxas has registers for.
#include <gtest/gtest.h>

#include <map>

#include "ops/conv/cuda_hopper_windows.h"
#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

using matmul::HopperConfig;

TEST(SlidingTiles, with_the_most_sums_spill_nothing) {
  const std::string residual =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  using Ints = std::vector<int64_t>;
  Form f("Conv", smelt_domain,
         {{"segments", int64_t{1}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}}, residual);
  f.in(DType::f16, {3, 136, 13, 9}, Layout::nhwc)
      .in(Tensor::zeros(DType::f16, {328, 136, 3, 3}))
      .in(Tensor::zeros(DType::f16, {328}))
      .in(DType::f16, {3, 328, 13, 9}, Layout::nhwc)
      .out(DType::f16, {3, 328, 13, 9}, Layout::nhwc);
  f.bound.node = &f.node;
  const auto gpu = std::make_shared<Gpu>(*gpu_of_arch("sm_90a"));
  gpu->info.multiprocessors = 132;
  std::string name;
  gpu->cubins = std::make_shared<device::cuda::CubinStore>("", [&](const device::cuda::Source& source, std::string_view arch) {
    auto cubin = device::cuda::compile(source, arch);
    for (const device::cuda::KernelResources& k : cubin.kernels)
      EXPECT_EQ(k.spill_store_bytes + k.spill_load_bytes + k.stack_bytes, 0) << name;
    return cubin;
  });
  Machine machine;
  machine.gpu = gpu;
  const auto request = conv::gpu_request(f.bound, machine);
  ASSERT_TRUE(request);
  conv::GpuRequest r = **request;
  const auto windows = conv::windows_problem(r);
  ASSERT_TRUE(windows);
  const auto product = conv::windows_product(r, *windows);
  const auto configs = conv::windows_configs(*windows, product, *gpu);
  ASSERT_TRUE(configs);
  const auto sums = [](const HopperConfig& c) { return c.rows() * c.columns(); };
  std::map<std::pair<int64_t, bool>, HopperConfig> most;  // by groups, and what fills the instruction's rows
  for (const HopperConfig& c : *configs)
    if (c.lines > 0) {
      const auto [at, first] = most.emplace(std::pair{c.groups, c.swap}, c);
      if (!first && sums(c) > sums(at->second)) at->second = c;
    }
  EXPECT_EQ(most.size(), 6U);
  for (const auto& [kind, c] : most) {
    name = c.print();
    EXPECT_NO_THROW(conv::hopper_conv(r, *windows, product, c)) << name;
  }
}

}  // namespace
}  // namespace smelt::ops
