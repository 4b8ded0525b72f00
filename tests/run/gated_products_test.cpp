// A gate and what it gates are one product on Hopper where that is estimated to take less, and two elsewhere; no GPU is needed.
#include <algorithm>

#include "device/cuda/compiler.h"
#include "fuse/match/rewrite.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/gated_product.h"
#include "plan/planner.h"
#include "run/plan.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// silu(x · gate) * (x · up), of f16.
Graph gated(int64_t columns, bool read_twice = false, int64_t rows = 4096) {
  constexpr int64_t depth = 512;
  Builder b;
  const SymShape y = to_sym({rows, columns});
  const ValueId x = b.input("x", to_sym({rows, depth}), DType::f16);
  const auto product = [&](const std::string& name) {
    return b.node(name, "MatMul", {x, b.weights(name + ".w", {depth, columns}, DType::f16, 0.05)}, y, DType::f16);
  };
  const ValueId gate = product("gate"), up = product("up");
  const ValueId open = b.node("open", "Sigmoid", {gate}, y, DType::f16),
                silu = b.node("silu", "Mul", {gate, open}, y, DType::f16);
  b.output(b.node("gated", "Mul", {silu, up}, y, DType::f16));
  if (read_twice) b.output(b.node("other", "Relu", {up}, y, DType::f16));
  return std::move(b.g);
}

std::vector<std::string> products_of(Graph g, const std::string& arch) {
  Options o = quick();
  o.skip.clear();
  o.arch = arch;
  const auto plan = Plan::build(std::move(g), o);
  std::vector<std::string> problems;
  for (const StepInfo& s : plan->steps())
    if (s.problem.starts_with("gemm:")) problems.push_back(s.problem);
  return problems;
}

class GatedProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
};

TEST_F(GatedProducts, are_one_on_hopper) {
  const auto problems = products_of(gated(1408), "sm_90a");
  ASSERT_EQ(problems.size(), 1u) << problems.back();
  EXPECT_NE(problems[0].find(":4096x2816x512:"), std::string::npos) << problems[0];
  EXPECT_NE(problems[0].find("gated1 "), std::string::npos) << problems[0];
}

TEST_F(GatedProducts, are_two_where_no_kernel_takes_both) {
  EXPECT_EQ(products_of(gated(1408), "sm_80").size(), 2u) << "no wgmma";
  EXPECT_EQ(products_of(gated(1416), "sm_90a").size(), 2u) << "columns that 64 do not divide";
  EXPECT_EQ(products_of(gated(1408, true), "sm_90a").size(), 2u) << "another reads what is gated";
  for (const int64_t rows : {1, 2, 48})
    EXPECT_EQ(products_of(gated(1408, false, rows), "sm_90a").size(), 2u) << rows << " rows, of which no tile has both";
}

TEST_F(GatedProducts, are_two_for_rows_that_no_kernel_takes_though_they_were_one_for_others) {
  ops::Machine machine;
  machine.gpu = ops::gpu_of_arch("sm_90a");
  Options o = quick();
  o.skip.clear();
  Graph g = gated(1408);
  for (const NodeId n : g.topological())
    for (const ValueId y : g.node(n).outputs) g.set_shape(y, SymShape{Dim("rows"), Dim(1408)});
  g.set_shape(g.inputs()[0], SymShape{Dim("rows"), Dim(512)});
  fuse::run(g);
  const plan::Planner p(
      std::move(g),
      std::make_shared<plan::Context>(machine, o, plan::Target{.is_host = false, .block_alignment = 256, .caller_alignment = 256},
                                      tune::Cache::in_memory()));
  const auto products = [&](int64_t rows) {
    const plan::PlannedSegment planned = p.first(std::vector<Shape>{{rows, 512}});
    return std::ranges::count_if(planned.segment.steps, [](const plan::Step& s) { return s.node && s.node->op == "MatMul"; });
  };
  EXPECT_EQ(products(4096), 1);
  EXPECT_EQ(products(2), 2);
}

TEST(GatedWeights, are_64_columns_of_each_in_turn) {
  const Tensor gate = random_tensor({3, 128}, 1).cast(DType::f16), up = random_tensor({3, 128}, 2).cast(DType::f16);
  const Tensor both = ops::matmul::gated_weights(gate, up);
  ASSERT_EQ(both.shape(), (Shape{3, 256}));
  const auto* all = static_cast<const uint16_t*>(both.raw());
  for (int64_t k = 0; k < 3; ++k)
    for (int64_t n = 0; n < 128; ++n) {
      const int64_t at = k * 256 + n / 64 * 128 + n % 64;
      EXPECT_EQ(all[at], static_cast<const uint16_t*>(gate.raw())[k * 128 + n]);
      EXPECT_EQ(all[at + 64], static_cast<const uint16_t*>(up.raw())[k * 128 + n]);
    }
}

}  // namespace
}  // namespace smelt::run
