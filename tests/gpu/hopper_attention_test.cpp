// Attention on Hopper's own instructions beside the processor's reference: every depth, lengths that no tile fits, causal and other
// masks, layouts. Each kernel runs twice, and must give the same bits.
#include "gpu/attention_trial.h"

namespace smelt::ops::attention {
namespace {

class GpuHopperAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  }
  /// All tiles agree with the reference; how many they were.
  static size_t expect(Trial t, double most) {
    t.bound.node = &t.node;
    const Tensor want = evaluate(t.node, t.inputs)[0];
    std::vector<std::pair<std::string, std::future<std::unique_ptr<Kernel>>>> kernels;  // compiled side by side
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates)
      if (c.tactic == "hopper") kernels.emplace_back(c.config, std::async(std::launch::async, c.prepare));
    for (auto& [config, kernel] : kernels) {
      SCOPED_TRACE(config);
      EXPECT_LE(error(run_on_gpu(t, *kernel.get())[0], want), most);
    }
    return kernels.size();
  }
  static size_t expect(const Case& c) {
    SCOPED_TRACE(fmt::format("{} {}x{}/{}x{}x{}x{}", name(c.type), c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.depth));
    return expect(trial(c), tolerance(c.type));
  }
  /// A causal mask, constant, which the kernel knows without reading it.
  static Case causal(Case c, int64_t more, double low = -infinity) {
    c.program = add_f32;
    c.masks = {mask(DType::f32, c.queries, c.keys, low, [&](int64_t i, int64_t j) { return j > i + more; })};
    c.constant_masks = true;
    return c;
  }
};

class GpuHopperAttentionDepth : public GpuHopperAttention, public ::testing::WithParamInterface<int64_t> {};

TEST_P(GpuHopperAttentionDepth, at_every_length) {
  const int64_t depth = GetParam();
  for (const DType type : {DType::f16, DType::bf16})
    for (const int64_t keys : {1, 63, 64, 65, 77, 127, 197, 512, 1024}) {
      if (type == DType::bf16 && keys != 77 && keys != 512) continue;
      const Case c{.type = type, .heads = 4, .kv_heads = 2, .queries = keys == 1024 ? 130 : 197, .keys = keys, .depth = depth};
      EXPECT_GE(expect(c), 1u);
      EXPECT_GE(expect(causal(c, keys - c.queries > 0 ? keys - c.queries : 0)), 1u);
    }
  for (const int64_t queries : {33, 63, 64, 65, 127, 512})
    EXPECT_GE(expect({.batch = 2, .queries = queries, .keys = 100, .depth = depth}), 1u);
}
INSTANTIATE_TEST_SUITE_P(Depths, GpuHopperAttentionDepth,
                         ::testing::Values(8, 16, 24, 32, 40, 64, 72, 80, 88, 96, 128, 160, 192, 256));

TEST_F(GpuHopperAttention, of_values_of_another_depth) {
  for (const auto& [depth, values] : {std::pair{64, 40}, {40, 128}, {72, 8}, {8, 256}, {256, 16}, {128, 200}})
    EXPECT_GE(expect({.queries = 100, .keys = 150, .depth = depth, .value_depth = values}), 1u) << depth << " " << values;
}

TEST_F(GpuHopperAttention, of_causal_masks_that_let_see_more_or_less) {
  for (const double low : {-infinity, -3e38})
    for (const int64_t queries : {65, 197, 300})
      for (const int64_t more : {-20, 0, 1, 70}) {
        if (low != -infinity && more < 0)
          continue;  // of a row that sees nothing, finite scores all weigh the same: no causal mask
        for (const bool guard : {false, true})
          EXPECT_GE(expect(causal({.type = DType::bf16,
                                   .queries = queries,
                                   .keys = queries + std::max<int64_t>(more, 0),
                                   .depth = 32,
                                   .nan_guard = guard},
                                  more, low)),
                    1u);
      }
}

/// A block goes over the rows of several: of one tile of keys, of an odd number and an even one.
TEST_F(GpuHopperAttention, of_more_blocks_than_run_at_once) {
  for (const int64_t keys : {77, 250, 400})
    for (const int64_t depth : {32, 64, 128}) {
      const Case c{.batch = 8, .heads = 16, .kv_heads = 4, .queries = 300, .keys = keys, .depth = depth};
      EXPECT_GE(expect(c), 1u);
      EXPECT_GE(expect(causal(c, keys > 300 ? 100 : 0)), 1u);
    }
}

/// Rows of all lengths: the first see one tile and the last many, a mask lets see less than a tile, rows end in the middle of a group, and
/// groups that share rows have a tile more or less than each other, or none.
TEST_F(GpuHopperAttention, of_causal_masks_over_rows_of_all_lengths) {
  for (const int64_t depth : {24, 32, 64})
    for (const auto& [queries, keys] : {std::pair{190, 190}, {512, 512}, {1024, 1024}, {129, 640}, {640, 640}}) {
      const Case c{.type = DType::bf16, .batch = 3, .heads = 8, .kv_heads = 2, .queries = queries, .keys = keys, .depth = depth};
      EXPECT_GE(expect(causal(c, keys - queries)), 1u);
      if (queries < 600) EXPECT_GE(expect(causal(c, -3)), 1u);
    }
}

/// What was summed before is scaled with each new maximum.
TEST_F(GpuHopperAttention, of_scores_that_rise_from_tile_to_tile) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const int64_t depth : {32, 64}) {
      Trial t = trial({.type = type, .heads = 4, .kv_heads = 4, .queries = 200, .keys = 520, .depth = depth, .scale = 1});
      Tensor keys = Tensor::empty(DType::f64, {1, 4, 520, depth});  // scores rise along the keys by about 40
      const Tensor noise = random_tensor(DType::f64, {1, 4, 520, depth}, 8, -0.5, 0.5);
      for (int64_t i = 0; i < keys.size(); ++i)
        keys.data<double>()[i] =
            noise.data<double>()[i] + 80.0 / 520 * static_cast<double>(i / depth % 520) / static_cast<double>(depth);
      t.inputs[1] = keys.cast(type);
      EXPECT_GE(expect(t, tolerance(type)), 1u);
    }
}

TEST_F(GpuHopperAttention, of_masks_that_are_read) {
  const int64_t queries = 130;
  for (const int64_t keys : {150, 197})
    for (const Shape& shape : {Shape{2, 3, queries, keys}, Shape{2, 1, 1, keys}, Shape{keys}, Shape{2, 3, queries, 1}, Shape{}}) {
      Case c{.batch = 2, .heads = 3, .kv_heads = 3, .queries = queries, .keys = keys, .program = add_f16};
      c.masks = {random_tensor(DType::f16, shape, 9, -3, 3)};
      EXPECT_GE(expect(c), 1u) << to_string(shape);
      c.program = hide;
      c.masks = {random_tensor(DType::f32, shape, 10, -1, 2).cast(DType::i32).cast(DType::boolean)};
      for (const bool guard : {false, true}) {
        c.nan_guard = guard;
        EXPECT_GE(expect(c), 1u) << to_string(shape);
      }
    }
  for (const float scale : {-0.3f, 0.f}) EXPECT_GE(expect({.queries = 70, .keys = 90, .scale = scale}), 1u);
}

TEST_F(GpuHopperAttention, of_heads_that_lie_beside_each_other) {
  for (const int64_t queries : {40, 100, 300})
    EXPECT_GE(expect(heads_beside_each_other(queries), tolerance(DType::f16)), 1u) << queries;
  EXPECT_GE(expect(packed(300), tolerance(DType::f16)), 1u);
}

}  // namespace
}  // namespace smelt::ops::attention
