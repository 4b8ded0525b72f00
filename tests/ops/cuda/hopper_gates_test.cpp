// Every tile that a gated product may be offered on Hopper compiles with its ends: ptxas serialises no wgmma. Without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cuda/compiler.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/gated_product.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// silu(gate) · up, with a bias and a residual or without: x (600, 328) by 448 columns of each.
Trial gates(DType type, bool plain) {
  const int64_t m = 600, n = 448, k = 328;
  const std::string_view name = smelt::name(type);
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  t.node.attrs[matmul::gate_attribute] = int64_t{plain ? 1 : 2};
  t.node.program = expr::Program::parse(
      plain ? fmt::format("(in0:f32, in1:{0}) {{ %2 = silu(in0):f32; %3 = cast(in1):f32; %4 = mul(%2, %3):f32; %5 = "
                          "cast(%4):{0}; return %5 }}",
                          name)
            : fmt::format(
                  "(in0:f32, in1:{0}, in2:{0}, in3:{0}) {{ %4 = cast(in1):f32; %5 = add(in0, %4):f32; %6 = silu(%5):f32; %7 = "
                  "cast(in2):f32; %8 = mul(%6, %7):f32; %9 = cast(in3):f32; %10 = add(%8, %9):f32; %11 = cast(%10):{0}; return "
                  "%11 }}",
                  name));
  const auto input = [&](const Shape& shape) { t.bound.inputs.push_back({type, shape, Layout::plain, {}, {}}); };
  input({m, k}), input({k, 2 * n});
  t.bound.inputs.back().constant = Tensor::zeros(type, {k, 2 * n});
  if (!plain) input({n}), input({m, n});
  for (size_t i = 0; i < t.bound.inputs.size(); ++i) t.node.inputs.push_back(ValueId(static_cast<int>(i)));
  t.result(type, {m, n});
  t.bound.node = &t.node;
  return t;
}

TEST(HopperGates, compile_in_every_tile_that_is_offered) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  for (const DType type : {DType::f16, DType::bf16})
    for (const bool plain : {true, false}) {
      Trial t = gates(type, plain);
      const auto gpu = std::make_shared<Gpu>(*gpu_of_arch("sm_90a"));
      gpu->cubins = std::make_shared<device::cuda::CubinStore>(
          "", [](const device::cuda::Source& source, std::string_view arch) { return device::cuda::compile(source, arch); });
      Machine machine;
      machine.gpu = gpu;
      int compiled = 0;
      for (const Candidate& c : offer(t.bound, machine).candidates) {
        if (c.tactic != "hopper") continue;
        EXPECT_NO_THROW(c.prepare()) << c.config;
        ++compiled;
      }
      EXPECT_GE(compiled, 4);
    }
}

}  // namespace
}  // namespace smelt::ops
