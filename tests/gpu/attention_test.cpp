// Attention's kernels against the processor's reference: every tile, mask and split, on lengths, depths, masks and layouts that
// no tile fits.
#include "gpu/attention_trial.h"

namespace smelt::ops::attention {
namespace {

/// Names of the candidates that ran.
std::vector<std::string> expect(const Case& c) {
  SCOPED_TRACE(fmt::format("{}x{}/{}x{}x{}x{}", c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.depth));
  Trial t = trial(c);
  return check_on_gpu(t, tolerance(c.type));
}
size_t count(const std::vector<std::string>& names, const std::string& part) {
  return static_cast<size_t>(
      std::ranges::count_if(names, [&](const std::string& n) { return n.find(part) != std::string::npos; }));
}

TEST(GpuAttention, lengths_that_no_tile_fits) {
  for (const int64_t queries : {1, 7, 63, 65, 197, 300})
    for (const int64_t keys : {1, 7, 63, 65, 197, 300}) EXPECT_GE(count(expect({.queries = queries, .keys = keys}), " n"), 1u);
}

class GpuAttentionDepth : public ::testing::TestWithParam<int64_t> {};
TEST_P(GpuAttentionDepth, any_multiple_of_8) {
  for (const DType type : {DType::f16, DType::bf16}) {
    EXPECT_GE(count(expect({.type = type, .queries = 65, .keys = 131, .depth = GetParam()}), " n"), 3u);
    EXPECT_GE(count(expect({.type = type, .queries = 2, .keys = 300, .depth = GetParam()}), "split"), 1u);
  }
}
INSTANTIATE_TEST_SUITE_P(Depths, GpuAttentionDepth, ::testing::Values(8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 160, 192, 256));

TEST(GpuAttention, depths_that_tensor_cores_do_not_take) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const int64_t depth : {1, 5, 36, 100})
      EXPECT_EQ(expect({.type = type, .queries = 9, .keys = 70, .depth = depth}).size(), type == DType::f64 ? 1u : 2u);
  EXPECT_EQ(expect({.queries = 3, .keys = 40, .depth = 64, .value_depth = 700}), std::vector<std::string>{"cuda plain"});
}

TEST(GpuAttention, values_of_another_depth) {
  EXPECT_GE(expect({.queries = 65, .keys = 100, .depth = 64, .value_depth = 40}).size(), 3u);
  EXPECT_GE(expect({.queries = 65, .keys = 100, .depth = 40, .value_depth = 128}).size(), 3u);
  EXPECT_GE(expect({.queries = 1, .keys = 500, .depth = 72, .value_depth = 8}).size(), 3u);
}

TEST(GpuAttention, f32_and_f64) {
  for (const DType type : {DType::f32, DType::f64})
    for (const int64_t keys : {1, 33, 197})
      for (const int64_t depth : {3, 64, 72, 160})
        EXPECT_EQ(expect({.type = type, .heads = 4, .queries = 90, .keys = keys, .depth = depth}).size(),
                  type == DType::f64 ? 1u : 2u);
  Case c{.type = DType::f64, .queries = 10, .keys = 30, .depth = 8};
  c.program = "(in0:f64, in1:f64) { %2 = add(in0, in1):f64; return %2 }";
  c.masks = {random_tensor(DType::f64, {30}, 4)};
  EXPECT_FALSE(expect(c).empty());
}

/// By emulation: 1.4e-7 where each tile's part is summed apart, 9.4e-7 where a row of O is one chain of additions.
TEST(GpuAttention, long_rows_in_f32_are_no_chain_of_additions) {
  Trial t = trial({.type = DType::f32, .queries = 20, .keys = 4096});
  std::vector<Tensor> wide;  // the reference sums in the inputs' type
  for (const Tensor& x : t.inputs) wide.push_back(x.cast(DType::f64));
  const Tensor want = evaluate(t.node, wide)[0];
  t.bound.node = &t.node;
  const std::vector<Candidate> all = offer(t.bound, gpu_machine()).candidates;
  const auto tiled = std::ranges::find(all, "tiled", &Candidate::config);
  ASSERT_NE(tiled, all.end());
  EXPECT_LE(rms_error(run_on_gpu(t, *tiled)[0], want), 4e-7);
}

TEST(GpuAttention, groups_of_heads_share_keys) {
  for (const int64_t queries : {1, 3, 80}) {
    const auto names = expect({.batch = 2, .heads = 8, .kv_heads = 2, .queries = queries, .keys = 150});
    if (queries <= 8) {
      EXPECT_GE(count(names, "packed"), 1u);
    }
  }
  EXPECT_GE(count(expect({.heads = 20, .kv_heads = 1, .queries = 1, .keys = 700, .depth = 128}), "packed split"), 1u);
}

TEST(GpuAttention, few_queries_and_many_keys) {
  for (const int64_t queries : {1, 2, 16, 17})
    for (const int64_t keys : {1, 129, 1025, 2048})
      EXPECT_GE(expect({.batch = 2, .queries = queries, .keys = keys, .depth = 128}).size(), 2u);
}

TEST(GpuAttention, masks_of_every_broadcast) {
  const int64_t queries = 70, keys = 150;
  for (const Shape& shape : {Shape{2, 3, queries, keys}, Shape{2, 1, queries, keys}, Shape{1, 1, queries, keys},
                             Shape{2, 1, 1, keys}, Shape{3, 1, keys}, Shape{keys}, Shape{2, 3, queries, 1}, Shape{1}, Shape{}}) {
    Case c{.batch = 2, .heads = 3, .kv_heads = 3, .queries = queries, .keys = keys, .program = add_f16};
    c.masks = {random_tensor(DType::f16, shape, 9, -3, 3)};
    EXPECT_GE(count(expect(c), "map"), 1u) << to_string(shape);
    c.program = add_f32;
    c.masks = {random_tensor(DType::f32, shape, 9, -3, 3)};
    EXPECT_GE(expect(c).size(), 4u);
    c.type = DType::f32;
    EXPECT_EQ(expect(c).size(), 2u);
    c.type = DType::f16;
    c.program = hide;
    c.masks = {random_tensor(DType::f32, shape, 10, -1, 2).cast(DType::i32).cast(DType::boolean)};
    EXPECT_GE(expect(c).size(), 4u);
  }
}

TEST(GpuAttention, masks_with_an_odd_number_of_keys) {
  for (const int64_t keys : {65, 197}) {
    Case c{.heads = 3, .kv_heads = 3, .queries = 90, .keys = keys, .program = add_f16};
    c.masks = {random_tensor(DType::f16, {1, 1, 90, keys}, 9, -3, 3)};
    EXPECT_GE(count(expect(c), " n"), 3u);
    c.queries = 1;
    c.masks = {random_tensor(DType::f16, {1, 3, 1, keys}, 9, -3, 3)};
    EXPECT_GE(count(expect(c), " n"), 1u);
  }
}

TEST(GpuAttention, causal_masks_that_are_constant_are_not_read) {
  for (const double low : {-infinity, -3e38})
    for (const int64_t queries : {65, 197, 300})
      for (const int64_t more : {0, 1, 70}) {
        Case c{.type = DType::bf16, .heads = 4, .kv_heads = 2, .queries = queries, .keys = queries + more, .depth = 32};
        c.program = "(in0:f32, in1:bf16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }";
        c.masks = {mask(DType::bf16, queries, queries + more, low, [&](int64_t i, int64_t j) { return j > i + more; })};
        c.constant_masks = true;
        Trial t = trial(c);
        t.bound.node = &t.node;
        for (const Candidate& candidate : offer(t.bound, gpu_machine()).candidates)
          EXPECT_EQ(candidate.prepare()->reads(3), candidate.config == "plain") << candidate.config;
        EXPECT_GE(expect(c).size(), 4u);
        c.type = DType::f32;
        EXPECT_EQ(expect(c).size(), 2u);
      }
  Case c{.queries = 4, .keys = 300, .program = hide};
  c.masks = {mask(DType::f32, 4, 300, 1, [](int64_t i, int64_t j) { return j <= i + 296; }).cast(DType::boolean)};
  c.constant_masks = true;
  EXPECT_GE(expect(c).size(), 3u);
}

TEST(GpuAttention, constant_masks_that_are_nearly_causal) {
  for (const int64_t other : {0, 5, 120}) {
    Case c{.queries = 130, .keys = 130, .program = add_f16};
    c.masks = {mask(DType::f16, 130, 130, -infinity, [&](int64_t i, int64_t j) { return j > i && !(i == other && j == 129); })};
    c.constant_masks = true;
    EXPECT_GE(count(expect(c), "map"), 1u);
  }
}

TEST(GpuAttention, a_constant_mask_that_hides_nothing_is_not_read) {
  Case c{.batch = 2, .queries = 70, .keys = 100, .program = add_f16};
  c.masks = {Tensor::zeros(DType::f16, {2, 1, 70, 100})};
  c.constant_masks = true;
  EXPECT_EQ(count(expect(c), "map"), 0u);
}

TEST(GpuAttention, tiles_that_a_run_time_mask_hides) {
  for (const double low : {-infinity, -3e38, -65504.0}) {
    for (const int64_t window : {1, 30, 200}) {
      Case c{.heads = 3, .kv_heads = 1, .queries = 300, .keys = 333, .program = add_f32, .nan_guard = true};
      c.masks = {mask(DType::f32, 300, 333, low, [&](int64_t i, int64_t j) { return j > i || j <= i - window; })};
      EXPECT_GE(count(expect(c), "map"), 1u);
    }
  }
}

TEST(GpuAttention, rows_that_see_nothing) {
  for (const bool guard : {false, true})
    for (const bool constant : {false, true})
      for (const double low : {-infinity, -3e38}) {  // of finite scores all weigh the same
        Case c{.queries = 150, .keys = 200, .program = add_f32, .nan_guard = guard};
        c.masks = {mask(DType::f32, 150, 200, low, [](int64_t i, int64_t j) { return j > i - 20; })};
        c.constant_masks = constant;
        EXPECT_GE(expect(c).size(), 4u) << guard << low;
        c.type = DType::f32;
        EXPECT_EQ(expect(c).size(), 2u);
        c.type = DType::f16;
        c.queries = 3;
        c.masks = {mask(DType::f32, 3, 200, low, [](int64_t i, int64_t j) { return i == 1 || j % 2; })};
        EXPECT_GE(count(expect(c), "split"), 1u);
      }
}

TEST(GpuAttention, programs_that_do_more_than_mask) {
  Case c{.queries = 70, .keys = 300, .scale = 1};
  c.program =
      "(in0:f32, in1:f16) { %2 = const(0.1):f32; %3 = mul(in0, %2):f32; %4 = tanh(%3):f32; %5 = const(10):f32; "
      "%6 = mul(%4, %5):f32; %7 = cast(in1):f32; %8 = add(%6, %7):f32; return %8 }";
  c.masks = {random_tensor(DType::f16, {70, 300}, 3)};
  EXPECT_EQ(count(expect(c), "map"), 0u);
  c.program =
      "(in0:f32, in1:bool, in2:f32) { %3 = add(in0, in2):f32; %4 = const(-inf):f32; %5 = select(in1, %3, %4):f32; return %5 }";
  c.masks = {mask(DType::f32, 70, 300, 1, [](int64_t i, int64_t j) { return j <= i; }).cast(DType::boolean),
             random_tensor(DType::f32, {1, 2, 1, 300}, 3)};
  EXPECT_GE(count(expect(c), "map"), 1u);
  for (const float scale : {-0.3f, 0.f}) {
    Case n{.queries = 70, .keys = 90, .scale = scale};
    EXPECT_GE(expect(n).size(), 4u);
  }
}

TEST(GpuAttention, heads_that_lie_beside_each_other) {
  for (const int64_t queries : {1, 100}) {
    Trial t = heads_beside_each_other(queries);
    EXPECT_GE(count(check_on_gpu(t, tolerance(DType::f16)), " n"), 2u);
  }
  Trial t = packed(100);
  EXPECT_GE(count(check_on_gpu(t, tolerance(DType::f16)), " n"), 3u);
}

TEST(GpuAttention, rows_that_are_apart_or_begin_anywhere_need_no_tensor_cores) {
  const std::vector<std::string> others{"cuda tiled", "cuda plain"};
  EXPECT_EQ(expect({.queries = 70, .keys = 197, .k_transposed = true}), others);
  EXPECT_EQ(expect({.type = DType::f32, .queries = 70, .keys = 197, .k_transposed = true}), others);
  Trial t = trial({.queries = 70, .keys = 90});
  t.bound.inputs[1].alignment = 2;
  t.bound.inputs[2].strides = {90 * 2 * 67, 90 * 67, 67, 1};
  EXPECT_EQ(check_on_gpu(t, tolerance(DType::f16)), others);
}

TEST(GpuAttention, nothing_to_do) {
  EXPECT_FALSE(expect({.queries = 5, .keys = 0, .nan_guard = true}).empty());
  EXPECT_FALSE(expect({.batch = 0}).empty());
}

}  // namespace
}  // namespace smelt::ops::attention
