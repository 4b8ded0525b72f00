// Matrix products on a GPU by every kind of tile: split, persistent, fed and streamed ones, on shapes that no tile divides.
#include <list>
#include <set>

#include "gemm_trial.h"

namespace smelt::ops {
namespace {

struct TileCase {
  DType type;
  bool tf32;
  int storage;  // bit 0: a transposed, bit 1: b
};

class GpuGemmTiles : public ::testing::TestWithParam<TileCase> {};

TEST_P(GpuGemmTiles, on_extents_that_they_do_not_divide) {
  const auto [type, tf32, storage] = GetParam();
  const bool trans_a = storage & 1, trans_b = storage & 2;
  auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->tf32 = tf32;
  Trial wide = gemm_trial({.type = type,
                           .a = trans_a ? Shape{2048, 304} : Shape{304, 2048},
                           .b = trans_b ? Shape{304, 2048} : Shape{2048, 304},
                           .trans_a = trans_a,
                           .trans_b = trans_b});
  wide.bound.node = &wide.node;
  const auto found = matmul::cuda_problem(wide.bound);
  std::set<std::string> seen;
  int split = 0;
  const auto configs = matmul::product_configs(*found, *gpu);
  ASSERT_TRUE(configs) << configs.refusal().text;
  std::list<ConfigTrial> trials;
  for (CudaConfig c : *configs) {
    c.splits = 1;
    if (!seen.insert(c.print()).second) continue;  // each tile once
    c.splits = !c.persistent && !c.fed && ++split % 3 == 0 ? 3 : 1;
    const int64_t m = c.tile_m + 24, n = c.tile_n + 40, k = 2 * c.stages * c.tile_k + 24;
    const Gemm g{.type = type,
                 .a = trans_a ? Shape{k, m} : Shape{m, k},
                 .b = trans_b ? Shape{n, k} : Shape{k, n},
                 .trans_a = trans_a,
                 .trans_b = trans_b};
    trials.emplace_back(c, g, tf32);
  }
  for (ConfigTrial& t : trials) t.agrees();
  EXPECT_GE(seen.size(), type == DType::f32 && !tf32 ? 4u : 10u);
}

std::vector<TileCase> tile_cases() {
  std::vector<TileCase> cases;
  for (int storage = 0; storage < 4; ++storage) {
    for (const DType type : {DType::f16, DType::f32}) cases.push_back({type, false, storage});
    cases.push_back({DType::f32, true, storage});
  }
  cases.push_back({DType::bf16, false, 0});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Storages, GpuGemmTiles, ::testing::ValuesIn(tile_cases()), [](const auto& info) {
  const TileCase& c = info.param;
  return fmt::format("{}_{}{}", c.tf32 ? "tf32" : std::string(name(c.type)), c.storage & 1 ? 't' : 'n',
                     c.storage & 2 ? 't' : 'n');
});

TEST(GpuGemm, splits_give_the_same_bits_whichever_block_comes_last) {
  for (const int64_t splits : {2, 3, 7}) {
    const CudaConfig c{CudaConfig::Unit::tensor, 16, 64, 64, 1, 4, 4, false, splits};
    expect_config(c, {.a = {5, 64 * 29 + 8}, .b = {64 * 29 + 8, 200}});  // run_on_gpu compares two runs bit for bit
    const CudaConfig large{CudaConfig::Unit::tensor, 64, 64, 64, 2, 2, 4, true, splits};
    expect_config(large, {.type = DType::bf16, .a = {2, 90, 1040}, .b = {2, 1040, 72}});
  }
}

/// More tiles than blocks run at once, of fewer steps of K than the ring has stages, of one and of several times as many.
TEST(GpuGemm, persistent_blocks_go_from_tile_to_tile) {
  CudaConfig c{CudaConfig::Unit::tensor, 128, 256, 64, 2, 4, 3, true, 1};
  c.ring = 4, c.persistent = true;
  const std::string program =
      "(in0:f32, in1:f16, in2:f16) { %3 = cast(in1):f32; %4 = add(in0, %3):f32; %5 = cast(in2):f32; %6 = add(%4, %5):f32; %7 = "
      "relu(%6):f32; %8 = cast(%7):f16; return %8 }";
  const int64_t rows = test_gpu()->info.multiprocessors / 8 + 2, m = 128 * rows - 100, n = 256 * 8 - 216;
  for (c.fed = false;; c.fed = true) {
    for (const int64_t k : {40, 104, 520})
      expect_config(c, {.a = {m, k},
                        .b = {k, n},
                        .program = program,
                        .operands = {random_tensor(DType::f16, {n}, 4), random_tensor(DType::f16, {m, n}, 5)}});
    expect_config(c, {.type = DType::bf16, .a = {3, 5 * 128 * 5, 72}, .b = {3, 484, 72}, .trans_b = true});
    if (c.fed || test_gpu()->info.major < 9) break;
  }
}

/// Stages that tensor maps bring: fewer than the ring has, as many, more; batches that repeat an operand; columns that are no vectors.
TEST(GpuGemm, fed_tiles_have_their_stages_brought_by_tensor_maps) {
  if (test_gpu()->info.major < 9) GTEST_SKIP() << "tensor maps are of Hopper on";
  size_t tiles = 0;
  for (const bool trans_b : {false, true}) {
    Trial wide = gemm_trial({.a = {300, 2048}, .b = trans_b ? Shape{304, 2048} : Shape{2048, 304}, .trans_b = trans_b});
    wide.bound.node = &wide.node;
    const auto found = matmul::cuda_problem(wide.bound);
    const auto configs = matmul::product_configs(*found, *test_gpu());
    ASSERT_TRUE(configs) << configs.refusal().text;
    for (const CudaConfig& c : *configs) {
      if (!c.fed) continue;
      ++tiles;
      for (const int64_t k : {int64_t{8}, c.tile_k, c.tile_k * c.stages, c.tile_k * (c.stages + 1) - 8, int64_t{1000}}) {
        expect_config(c, {.a = {77, k}, .b = trans_b ? Shape{304, k} : Shape{k, 304}, .trans_b = trans_b});
        expect_config(c, {.type = DType::bf16,
                          .a = {2, c.tile_m + 1, k},
                          .b = trans_b ? Shape{c.tile_n + 3, k} : Shape{k, c.tile_n + 8},
                          .trans_b = trans_b});
      }
      const Shape many = trans_b ? Shape{3, 40, 136} : Shape{3, 136, 40};
      expect_config(c, {.a = {3, 130, 136}, .b = many, .trans_b = trans_b});
      expect_config(c, {.a = {130, 136}, .b = many, .trans_b = trans_b});
    }
  }
  EXPECT_GE(tiles, 8u);
}

TEST(GpuGemm, streams_share_the_last_tiles_by_steps_of_k_and_give_the_same_bits) {
  // Tiles of 16 x 64 and 64 x 64, some with a block each or none; streams of whole tiles, of parts of two, of a step each.
  const CudaConfig narrow{CudaConfig::Unit::tensor, 16, 64, 64, 1, 4, 4, false, 1},
      wide{CudaConfig::Unit::tensor, 64, 64, 64, 2, 2, 4, true, 1}, fma{CudaConfig::Unit::fma, 64, 64, 32, 16, 16, 2, false, 1};
  struct Case {
    CudaConfig config;
    Gemm product;
    int64_t tiles, steps;
  };
  const Case cases[] = {
      {narrow, {.a = {5, 64 * 29 + 8}, .b = {64 * 29 + 8, 200}}, 4, 30},
      {narrow, {.a = {40, 456}, .b = {456, 200}}, 12, 8},
      {wide, {.type = DType::bf16, .a = {2, 90, 1040}, .b = {2, 1040, 72}}, 8, 17},
      {wide, {.a = {130, 640}, .b = {640, 330}}, 18, 10},
      {fma, {.type = DType::f32, .a = {130, 328}, .b = {328, 200}}, 12, 11},
  };
  for (const Case& of : cases)
    for (const int64_t streamed : {int64_t{1}, int64_t{3}, of.tiles})
      for (const int64_t streams : {streamed, streamed + 1, 2 * streamed + 1, streamed * of.steps - 1, streamed * of.steps}) {
        CudaConfig c = of.config;
        c.streamed = streamed, c.streams = streams;
        expect_config(c, of.product);  // run_on_gpu compares two runs bit for bit
      }
}

TEST(GpuGemm, streams_are_candidates_where_the_last_round_is_ragged) {
  const int64_t k = 520, n = 64 * (test_gpu()->info.multiprocessors + 9);
  Trial t = gemm_trial({.a = {520, k}, .b = {k, n}});
  t.bound.node = &t.node;
  const auto found = matmul::cuda_problem(t.bound);
  const auto streamed = matmul::streamed_configs(*found, *test_gpu());
  ASSERT_FALSE(streamed.empty());
  const Tensor want = evaluate(t.node, t.inputs)[0];
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    if (c.config.find("stream") == c.config.npos) continue;
    SCOPED_TRACE(c.config);
    EXPECT_LE(error(run_on_gpu(t, c)[0], want), gemm_tolerance(DType::f16, k));
  }
}

}  // namespace
}  // namespace smelt::ops
