// The tactic cute: when it is a candidate, what it refuses, and its kernels compiled without a GPU. They take longer than a kernel
// may otherwise, so they are in no form.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "device/cuda/cutlass.h"
#include "ops/cuda/asked_tactics.h"
#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

/// Concatenated images of so many channels, convolved to `m`.
Form concatenated(DType type, const std::vector<int64_t>& channels, int64_t m) {
  const std::string result = type == DType::f32 ? "return %1" : fmt::format("%2 = cast(%1):{}; return %2", name(type));
  const std::string relu = fmt::format("(in0:f32) {{ %1 = relu(in0):f32; {} }}", result);
  Form f("Conv", smelt_domain, {{"segments", std::ssize(channels)}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}, relu);
  int64_t all = 0;
  for (const int64_t c : channels) f.in(type, {1, c, 40, 40}, Layout::nhwc), all += c;
  f.in(Tensor::zeros(type, {m, all, 3, 3})).in(type, {m}).out(type, {1, m, 40, 40}, Layout::nhwc);
  return f;
}

Machine machine_for(std::string_view arch, bool asked) {
  const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
  gpu->caches->get<AskedTactics>().cute = asked;
  Machine machine;
  machine.gpu = gpu;
  return machine;
}

std::vector<Candidate> of_cute(Form f, const Machine& machine, std::string* refusal = nullptr) {
  f.bound.node = &f.node;
  Offer o = offer(f.bound, machine);
  std::erase_if(o.candidates, [](const Candidate& c) { return c.tactic != "cute"; });
  for (const auto& r : o.refused)
    if (refusal && r.tactic == "cute") *refusal = r.why.text;
  return o.candidates;
}

std::string refused(Form f, std::string_view arch = "sm_90a") {
  std::string why;
  EXPECT_THAT(of_cute(std::move(f), machine_for(arch, true), &why), IsEmpty());
  return why;
}

bool missing() { return !device::cuda::cutlass_headers().missing.empty(); }

TEST(Cute, is_no_candidate_unless_it_is_asked_for) {
  std::string why;
  EXPECT_THAT(of_cute(concatenated(DType::f16, {64, 64}, 64), machine_for("sm_90a", false), &why), IsEmpty());
  EXPECT_EQ(why, "");
}

TEST(Cute, is_a_candidate_by_every_tile_or_says_what_is_missing) {
  const Form f = concatenated(DType::f16, {64, 64}, 64);
  if (missing()) {
    EXPECT_EQ(refused(f), device::cuda::cutlass_headers().missing);
  } else {
    EXPECT_EQ(of_cute(f, machine_for("sm_90a", true)).size(), 4u);
    EXPECT_EQ(of_cute(concatenated(DType::bf16, {8, 24, 40, 8, 8, 8, 8, 8}, 3), machine_for("sm_80", true)).size(), 4u);
  }
}

TEST(Cute, refuses_what_it_does_not_take) {
  if (missing()) GTEST_SKIP() << device::cuda::cutlass_headers().missing;
  EXPECT_THAT(refused(concatenated(DType::f16, {64, 60}, 64)), HasSubstr("copies of 8 bytes, expected 16"));
  EXPECT_THAT(refused(concatenated(DType::f32, {64, 64}, 64)), HasSubstr("f32, expected f16 or bf16"));
  EXPECT_THAT(refused(concatenated(DType::f16, {64, 64}, 64), "sm_75"), HasSubstr("sm_75, expected sm_80 or newer"));
  Form upsampled = concatenated(DType::f16, {64, 64}, 64);
  upsampled.node.attrs["upsample"] = std::vector<int64_t>{1, 2};
  upsampled.bound.inputs[1].shape = {1, 64, 20, 20};
  EXPECT_THAT(refused(upsampled), HasSubstr("input 1 is upsampled"));
}

/// K in steps of 32 where 64 would be zeros by more than a fifth.
TEST(Cute, takes_half_of_a_stage_s_channels_where_the_rest_would_be_zeros) {
  if (missing()) GTEST_SKIP() << device::cuda::cutlass_headers().missing;
  for (const auto& [channels, steps] : {std::pair{32, "x32 s4"}, {64, "x64 s3"}, {96, "x32 s4"}, {160, "x64 s3"}, {8, "x32 s4"}})
    for (const Candidate& c : of_cute(concatenated(DType::f16, {channels, channels}, 64), machine_for("sm_90a", true)))
      EXPECT_THAT(c.config, testing::EndsWith(steps)) << channels;
}

/// The tile of the most sums, and one of half a stage; kept as the other kernels' reports are.
TEST(Cute, compiles_without_spills) {
  if (missing()) GTEST_SKIP() << device::cuda::cutlass_headers().missing;
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  const char* const folder = std::getenv("SMELT_KERNEL_REPORTS");
  for (const auto& [form, config] : {std::pair{concatenated(DType::f16, {64, 64}, 64), "128x128x64 s3"},
                                     std::pair{concatenated(DType::bf16, {8, 8, 8}, 20), "64x64x32 s4"}}) {
    const Machine machine = machine_for("sm_90a", true);
    auto gpu = std::make_shared<Gpu>(*machine.gpu);
    gpu->log = std::make_shared<KernelLog>();
    gpu->cubins = std::make_shared<device::cuda::CubinStore>(folder ? folder : "",
                                                             [](const device::cuda::Source& source, std::string_view arch) {
                                                               device::cuda::Cubin cubin = device::cuda::compile(source, arch);
                                                               cubin.bytes.clear();
                                                               return cubin;
                                                             });
    Machine own;
    own.gpu = gpu;
    const std::vector<Candidate> all = of_cute(form, own);
    const auto chosen = std::ranges::find(all, config, &Candidate::config);
    ASSERT_NE(chosen, all.end()) << config;
    chosen->prepare();
    EXPECT_THAT(gpu->log->compiled(), testing::ElementsAre("conv/cute.cuh CuteTile: conv"));
    for (const auto& [key, cubin] : gpu->cubins->in_memory())
      for (const device::cuda::KernelResources& k : cubin->kernels) {
        EXPECT_EQ(k.spill_store_bytes + k.spill_load_bytes + k.stack_bytes, 0) << config;
        EXPECT_GT(k.registers, 0);
      }
  }
}

}  // namespace
}  // namespace smelt::ops
