// Which tiles of Hopper's own instructions a product is offered, and why it is offered none: no GPU is needed.
#include "ops/matmul/cuda_hopper.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops::matmul {
namespace {

Trial product_of(DType type, int64_t m, int64_t n, int64_t k) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  t.node.inputs = {ValueId(0), ValueId(1)};
  t.bound.inputs = {{type, {m, k}, Layout::plain, {}, {}}, {type, {k, n}, Layout::plain, {}, {}}};
  t.result(type, {m, n});
  return t;
}

Result<std::vector<HopperConfig>> configs_of(Trial t, std::string_view arch = "sm_90a") {
  t.bound.node = &t.node;
  return hopper_configs(*cuda_problem(t.bound), *gpu_of_arch(arch));
}

std::string refusal_of(const Trial& t, std::string_view arch = "sm_90a") {
  const auto found = configs_of(t, arch);
  return found ? "offered" : found.refusal().text;
}

TEST(HopperConfigs, are_of_hopper_alone) {
  EXPECT_TRUE(configs_of(product_of(DType::f16, 512, 512, 512)));
  EXPECT_TRUE(configs_of(product_of(DType::bf16, 512, 512, 512)));
  for (const char* arch : {"sm_80", "sm_89", "sm_100a", "sm_120a"})
    EXPECT_TRUE(refusal_of(product_of(DType::f16, 512, 512, 512), arch).starts_with("wgmma is Hopper's alone (9.0), this is "))
        << arch;
}

TEST(HopperConfigs, take_floats_that_may_be_rounded_whose_lines_can_run_along_k) {
  EXPECT_EQ(refusal_of(product_of(DType::f32, 512, 512, 512)), "a product of f32 that may not be rounded to tf32");
  Gpu rounding = *gpu_of_arch("sm_90a");
  rounding.tf32 = true;
  const auto configs_on = [&](Trial t) {
    t.bound.node = &t.node;
    return hopper_configs(*cuda_problem(t.bound), rounding);
  };
  const auto computed = configs_on(product_of(DType::f32, 512, 512, 512));
  ASSERT_FALSE(computed);
  EXPECT_EQ(computed.refusal().text, "an operand's lines do not run along K, which those of f32 must");
  Trial constant = product_of(DType::f32, 512, 512, 512);
  constant.bound.inputs[1].constant = Tensor::empty(DType::f32, {512, 512});
  const auto configs = configs_on(std::move(constant));
  ASSERT_TRUE(configs);
  for (const HopperConfig& c : *configs) {
    EXPECT_TRUE(c.transposed) << c.print();
    EXPECT_EQ(c.steps, 32) << c.print();
  }
}

/// A gate and what it gates lie in pieces of 64 columns: a tile has both of them, and groups may alternate.
TEST(HopperConfigs, of_gates_have_whole_pieces_and_groups_that_alternate) {
  Trial t = product_of(DType::bf16, 4096, 2816, 512);
  t.bound.node = &t.node;
  CudaProblem p = *cuda_problem(t.bound);
  p.gated = true;
  const auto configs = hopper_configs(p, *gpu_of_arch("sm_90a"));
  ASSERT_TRUE(configs);
  for (const HopperConfig& c : *configs) EXPECT_TRUE(c.gated && c.tile_n % 128 == 0 && !c.swap && c.patch() == 1) << c.print();
  EXPECT_TRUE(std::ranges::any_of(*configs, &HopperConfig::alternate));
}

TEST(HopperConfigs, take_floats_of_8_bits_whose_lines_run_along_k) {
  Trial t = product_of(DType::f8e4m3fn, 512, 512, 512);
  t.node.program = expr::conversion(DType::f32, DType::f16);
  t.bound.outputs[0].type = DType::f16;
  EXPECT_EQ(refusal_of(t), "an operand's lines do not run along K, which those of f8e4m3fn must");
  t.bound.inputs[1].constant = Tensor::zeros(DType::f8e4m3fn, {512, 512});
  const auto configs = configs_of(t);
  ASSERT_TRUE(configs);
  for (const HopperConfig& c : *configs) {
    EXPECT_TRUE(c.transposed && !c.alternate) << c.print();
    EXPECT_EQ(c.steps, 128) << c.print();
    EXPECT_LE(c.rows() * c.columns(), 216) << c.print();  // a lane has the sums twice
  }
  // No other tactic multiplies them, on a GPU or a processor.
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  for (const Candidate& c : offer(t.bound, machine).candidates) EXPECT_EQ(c.tactic, "hopper");
  for (const Candidate& c : offer(t.bound, Machine{}).candidates) EXPECT_EQ(c.tactic, "reference");
}

/// Of u8 by constant i8, or u8 with a zero point each column.
Offer offer_of_integers(DType type_b, int64_t zero) {
  Trial t;
  t.node.op = "MatMulInteger";
  t.add(Tensor::zeros(DType::u8, {512, 256}), false);
  Tensor weights = Tensor::empty(type_b, {256, 320});
  std::memset(weights.raw(), 100, static_cast<size_t>(weights.nbytes()));
  t.add(weights, true);
  t.add(Tensor::scalar<int64_t>(3).cast(DType::u8), true);
  t.add(Tensor::scalar<int64_t>(zero).cast(type_b), true);
  t.result(DType::i32, {512, 320});
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  return offer(t.bound, machine);
}

TEST(HopperConfigs, take_8_bit_integers_whose_weights_have_a_sign_and_8_bits_less_their_zero_points) {
  const auto offered = [](const Offer& o) {
    return std::ranges::any_of(o.candidates, [](const Candidate& c) { return c.tactic == "hopper"; });
  };
  EXPECT_TRUE(offered(offer_of_integers(DType::i8, 0)));
  EXPECT_TRUE(offered(offer_of_integers(DType::i8, -20)));
  EXPECT_FALSE(offered(offer_of_integers(DType::i8, -30)));
  EXPECT_TRUE(offered(offer_of_integers(DType::u8, 128)));
  EXPECT_TRUE(offered(offer_of_integers(DType::u8, 0)));
}

TEST(HopperConfigs, lay_lines_along_k_so_that_each_column_has_one) {
  for (const int64_t width : {0, 2, 4, 8, 16})
    for (const int64_t n : {1, 63, 64, 200}) {
      HopperConfig c;
      c.width = width;
      std::vector<int> lines(static_cast<size_t>(c.b_lines(n)));
      for (int64_t l = 0; l < c.b_lines(n); ++l) ++lines.at(static_cast<size_t>(c.column_of(l)));
      EXPECT_TRUE(std::ranges::all_of(lines, [](int count) { return count == 1; })) << width << " " << n;
    }
}

TEST(HopperConfigs, are_refused_with_the_number_that_a_tensor_map_does_not_take) {
  EXPECT_EQ(refusal_of(product_of(DType::f16, 50, 80, 61)), "a's lines are 122 bytes apart, tensor maps want a multiple of 16");
  EXPECT_EQ(refusal_of(product_of(DType::f16, 50, 81, 64)), "b's lines are 162 bytes apart, tensor maps want a multiple of 16");
  Trial narrow = product_of(DType::f16, 50, 80, 64);
  narrow.bound.inputs[1].alignment = 8;
  EXPECT_EQ(refusal_of(narrow), "b begins at a multiple of 8 bytes, tensor maps at one of 16");
  Trial padded = product_of(DType::f16, 50, 81, 61);
  padded.bound.inputs[0].strides = {64, 1};
  padded.bound.inputs[1].strides = {88, 1};
  EXPECT_EQ(refusal_of(padded), "offered");
}

TEST(HopperConfigs, fill_the_64_rows_with_columns_where_there_are_few_rows) {
  const auto of_rows = [](int64_t m) { return *configs_of(product_of(DType::f16, m, 4096, 4096)); };
  const auto swaps = [](const HopperConfig& c) { return c.swap; };
  EXPECT_TRUE(std::ranges::all_of(of_rows(2), swaps));
  EXPECT_TRUE(std::ranges::any_of(of_rows(48), swaps));
  EXPECT_TRUE(std::ranges::none_of(of_rows(257), swaps));
  for (const HopperConfig& c : of_rows(34)) EXPECT_GE(c.tile_m, 34);
}

TEST(HopperConfigs, keep_constants_as_stages_for_9_to_64_rows) {
  const auto packed = [](int64_t m, bool constant) {
    Trial t = product_of(DType::f16, m, 4096, 4096);
    if (constant) t.bound.inputs[1].constant = Tensor::empty(DType::f16, {4096, 4096});
    return std::ranges::any_of(*configs_of(std::move(t)), &HopperConfig::packed);
  };
  EXPECT_TRUE(packed(9, true));
  EXPECT_TRUE(packed(64, true));
  EXPECT_FALSE(packed(48, false));
  EXPECT_FALSE(packed(8, true));
  EXPECT_FALSE(packed(65, true));
}

TEST(HopperConfigs, split_no_cluster_into_blocks_without_a_step_of_k) {
  for (const int64_t k : {64 * 5, 64 * 9, 64 * 29 + 8, 64 * 80}) {
    const auto configs = configs_of(product_of(DType::f16, 5, 64, k));
    for (const HopperConfig& c : *configs) {
      const int64_t steps = (k + 63) / 64, each = (steps + c.splits - 1) / c.splits;
      EXPECT_TRUE(!c.cluster() || (c.splits - 1) * each < steps) << c.print();
      EXPECT_TRUE(!c.cluster() || c.splits <= 8) << c.print();
    }
  }
}

TEST(HopperConfigs, fit_into_shared_memory_as_often_as_they_say) {
  const auto gpu = gpu_of_arch("sm_90a");
  for (const int64_t m : {2, 40, 512, 4096}) {
    Trial t = product_of(DType::bf16, m, 4096, 4096);
    t.bound.node = &t.node;
    const auto p = cuda_problem(t.bound);
    const auto configs = hopper_configs(*p, *gpu);
    for (const HopperConfig& c : *configs) {
      EXPECT_LE(c.blocks * (c.shared_bytes(*p) + gpu->info.reserved_shared_per_block), gpu->info.shared_per_multiprocessor)
          << c.print();
      EXPECT_GE(c.stages, 2) << c.print();
    }
  }
}

}  // namespace
}  // namespace smelt::ops::matmul
