// How matrix products are laid out for a GPU, and which tiles they are offered: no GPU is needed.
#include <algorithm>
#include <set>

#include "kernels/gemm/streamed.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/tactic_check.h"

namespace smelt::ops::matmul {
namespace {

Trial product_of(DType type, Shape a, Shape b, Shape y, bool trans_b = false) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  if (trans_b) t.node.attrs["transB"] = int64_t{1};
  for (Shape* s : {&a, &b}) {
    t.node.inputs.push_back(ValueId(static_cast<int>(t.node.inputs.size())));
    t.bound.inputs.push_back({type, *s, Layout::plain, {}, {}});
  }
  t.result(type, std::move(y));
  t.bound.node = &t.node;
  return t;
}

CudaProblem problem_of(Trial& t) {
  t.bound.node = &t.node;
  auto found = cuda_problem(t.bound);
  if (!found) ADD_FAILURE() << found.refusal().text;
  return *found;
}

TEST(CudaMatMul, folds_batches_that_only_the_left_operand_has_into_its_rows) {
  Trial t = product_of(DType::f16, {4, 5, 33, 64}, {64, 48}, {4, 5, 33, 48});
  const CudaProblem p = problem_of(t);
  EXPECT_EQ(p.m, 4 * 5 * 33);
  EXPECT_EQ(p.batches(), 1);
  Trial apart = product_of(DType::f16, {4, 33, 64}, {64, 48}, {4, 33, 48});
  apart.bound.inputs[0].strides = {40 * 64, 64, 1};  // rows of one image are not followed by the next image's
  EXPECT_EQ(problem_of(apart).m, 33);
  EXPECT_EQ(problem_of(apart).batches(), 4);
  Trial one_row = product_of(DType::f16, {4, 1, 64}, {64, 48}, {4, 1, 48});
  one_row.bound.inputs[0].strides = {40 * 64, 64, 1};
  EXPECT_EQ(problem_of(one_row).m, 4);
  EXPECT_EQ(problem_of(one_row).a.outer, 40 * 64);
}

/// A plan's file says it, and may say anything.
TEST(CudaMatMul, refuses_a_second_product_that_is_no_input_of_its_program) {
  for (const int64_t input : {int64_t{-1}, int64_t{2}, int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    Trial t = product_of(DType::f16, {50, 64}, {64, 80}, {50, 80});
    t.node.attrs["gate"] = input;
    const auto found = cuda_problem(t.bound);
    ASSERT_FALSE(found) << input;
    EXPECT_THAT(found.refusal().text, testing::HasSubstr("the second product"));
  }
}

TEST(CudaMatMul, copies_are_as_wide_as_lines_steps_and_alignment_allow) {
  const auto widths = [](Trial t) {
    const CudaProblem p = problem_of(t);
    return std::pair(p.a.vec, p.b.vec);
  };
  EXPECT_EQ(widths(product_of(DType::f16, {50, 64}, {64, 80}, {50, 80})), std::pair(int64_t{8}, int64_t{8}));
  EXPECT_EQ(widths(product_of(DType::f32, {50, 64}, {64, 80}, {50, 80})), std::pair(int64_t{4}, int64_t{4}));
  EXPECT_EQ(widths(product_of(DType::f16, {50, 60}, {60, 42}, {50, 42})), std::pair(int64_t{4}, int64_t{2}));
  EXPECT_EQ(widths(product_of(DType::f16, {50, 41}, {41, 43}, {50, 43})), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(widths(product_of(DType::f16, {50, 64}, {81, 64}, {50, 81}, true)), std::pair(int64_t{8}, int64_t{8}));
  Trial slice = product_of(DType::f16, {50, 64}, {64, 80}, {50, 80});
  slice.bound.inputs[0].alignment = 4;
  slice.bound.inputs[1].strides = {82, 1};
  EXPECT_EQ(widths(slice), std::pair(int64_t{2}, int64_t{2}));
}

TEST(CudaMatMul, says_why_it_takes_no_product) {
  const auto why = [](Trial t) {
    const auto found = cuda_problem(t.bound);
    return found ? "" : found.refusal().text;
  };
  EXPECT_EQ(why(product_of(DType::i16, {2, 3}, {3, 4}, {2, 4})),
            "a product of i16, they multiply f16, bf16, f32, f8e4m3fn, f64 and integers of 32 and 64 bits");
  EXPECT_EQ(why(product_of(DType::f64, {2, 3}, {3, 4}, {2, 4})), "");
  EXPECT_EQ(why(product_of(DType::u64, {2, 3}, {3, 4}, {2, 4})), "");
  Trial mixed = product_of(DType::f16, {2, 3}, {3, 4}, {2, 4});
  mixed.bound.inputs[1].type = DType::f32;
  mixed.bound.node = &mixed.node;
  const auto found = cuda_problem(mixed.bound);
  EXPECT_EQ(found.refusal().text, "operands of f16 and f32, they take two of one type");
}

TEST(CudaMatMul, every_architecture_has_tiles_for_every_type_within_its_shared_memory) {
  for (const std::string_view arch : device::cuda::known_archs()) {
    const auto gpu = gpu_of_arch(arch);
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
      for (const Shape& mnk : {Shape{2, 4096, 4096}, Shape{512, 512, 512}, Shape{37, 41, 43}, Shape{1, 1, 1}}) {
        Trial t = product_of(type, {mnk[0], mnk[2]}, {mnk[2], mnk[1]}, {mnk[0], mnk[1]});
        const auto configs = product_configs(problem_of(t), *gpu);
        ASSERT_TRUE(configs) << arch << ' ' << configs.refusal().text;
        EXPECT_TRUE(std::ranges::all_of(*configs, [&](const CudaConfig& c) {
          return c.shared_bytes(bytes(type, 1)) <= gpu->info.shared_per_block;
        })) << arch;
        const bool tensor = type == DType::f16 || (type == DType::bf16 && gpu->info.major >= 8);
        EXPECT_EQ(configs->at(0).unit, tensor ? CudaConfig::Unit::tensor : CudaConfig::Unit::fma) << arch << ' ' << name(type);
      }
    }
  }
}

TEST(CudaMatMul, tf32_where_the_model_lets_products_round) {
  auto gpu = std::make_shared<Gpu>(*gpu_of_arch("sm_90a"));
  gpu->tf32 = true;
  Trial t = product_of(DType::f32, {512, 512}, {512, 512}, {512, 512});
  EXPECT_EQ(cuda_configs(problem_of(t), *gpu)->at(0).unit, CudaConfig::Unit::tf32);
}

TEST(CudaMatMul, few_rows_of_a_deep_product_are_split) {
  const auto gpu = gpu_of_arch("sm_90a");
  Trial deep = product_of(DType::f16, {2, 40000}, {40000, 1024}, {2, 1024});
  EXPECT_GT(cuda_configs(problem_of(deep), *gpu)->at(0).splits, 1);
  Trial wide = product_of(DType::f16, {4096, 512}, {512, 4096}, {4096, 4096});
  EXPECT_EQ(cuda_configs(problem_of(wide), *gpu)->at(0).splits, 1);
}

/// Woven tiles are of sm_80 on, of 16 bits and bytes, and no convolution's; a persistent block has whole tiles.
TEST(CudaMatMul, large_products_have_woven_tiles) {
  const auto woven = [](const std::vector<CudaConfig>& configs) {
    return std::ranges::count_if(configs, [](const CudaConfig& c) { return c.ring > 0; });
  };
  for (const std::string_view arch : device::cuda::known_archs()) {
    const auto gpu = gpu_of_arch(arch);
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
      Trial t = product_of(type, {4096, 4096}, {4096, 4096}, {4096, 4096});
      const CudaProblem p = problem_of(t);
      const auto configs = *product_configs(p, *gpu);
      EXPECT_EQ(woven(configs) > 0, type != DType::f32 && gpu->info.major >= 8) << arch << ' ' << name(type);
      EXPECT_EQ(woven(*cuda_configs(p, *gpu)), 0) << arch;
      for (const CudaConfig& c : configs) {
        EXPECT_TRUE(!c.persistent || (c.ring > 0 && c.splits == 1 && c.streams == 0)) << c.print();
        EXPECT_LE(c.shared_bytes(bytes(type, 1)), gpu->info.shared_per_block) << c.print();
      }
    }
  }
}

TEST(CudaMatMul, streams_have_every_step_once_and_a_part_of_memory_for_each_tile) {
  for (const uint32_t of_tile : {1u, 2u, 7u, 64u})
    for (const uint32_t tiles : {1u, 3u, 9u, 131u})
      for (const uint32_t blocks : {tiles, tiles + 1, 2 * tiles - 1, 132u, tiles * of_tile - 1, tiles * of_tile}) {
        if (blocks < tiles || blocks > tiles * of_tile) continue;
        const kernels::StreamedSteps s{uint64_t{tiles} * of_tile, blocks, of_tile};
        EXPECT_EQ(s.begin(0), 0u);
        EXPECT_EQ(s.begin(blocks), s.steps);
        std::set<std::pair<uint32_t, uint32_t>> parts;  // (block, which of its two)
        std::vector<uint32_t> arrivals(tiles, 0);
        for (uint32_t b = 0; b < blocks; ++b) {
          ASSERT_LT(s.begin(b), s.begin(b + 1));
          ASSERT_LE(s.begin(b + 1) - s.begin(b), of_tile);
          for (uint64_t step = s.begin(b); step < s.begin(b + 1); ++step) ASSERT_EQ(s.block_of(step), b);
          for (uint64_t at = s.begin(b); at < s.begin(b + 1); at = (at / of_tile + 1) * of_tile) {
            const auto tile = static_cast<uint32_t>(at / of_tile);
            ASSERT_LE(s.first_block(tile), b);
            ASSERT_GE(s.last_block(tile), b);
            ASSERT_TRUE(parts.emplace(b, s.part(tile, b)).second);
            ++arrivals[tile];
          }
        }
        for (uint32_t tile = 0; tile < tiles; ++tile) ASSERT_EQ(arrivals[tile], s.last_block(tile) - s.first_block(tile) + 1);
      }
}

TEST(CudaMatMul, a_ragged_last_round_has_streams) {
  const auto gpu = gpu_of_arch("sm_80");
  const auto of = [&](int64_t m, int64_t n, int64_t k) {
    Trial t = product_of(DType::f16, {m, k}, {k, n}, {m, n});
    return streamed_configs(problem_of(t), *gpu);
  };
  const auto ragged = of(4096, 4096, 4096);
  ASSERT_FALSE(ragged.empty());
  for (const CudaConfig& c : ragged) {
    EXPECT_GE(c.streams, c.streamed) << c.print();
    EXPECT_EQ(c.splits, 1);
  }
  EXPECT_TRUE(of(16, 64, 4096).empty()) << "one round, which splits of K are for";
}

}  // namespace
}  // namespace smelt::ops::matmul
