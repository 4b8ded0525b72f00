// Attention that makes its caches longer, against the processor's reference: y within what rounding allows, both presents to the bit.
#include "gpu/attention_trial.h"

namespace smelt::ops::attention {
namespace {

struct Cached {
  Case of;  // keys: all of them
  int64_t fresh = 1;
};

Trial cached(const Cached& c) {
  const Case& a = c.of;
  const int64_t value_depth = a.value_depth ? a.value_depth : a.depth, past = a.keys - c.fresh;
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "CachedAttention";
  t.node.attrs["scale"] = a.scale;
  if (a.nan_guard) t.node.attrs["nan_guard"] = int64_t{1};
  t.add(random_tensor(a.type, {a.batch, a.heads, a.queries, a.depth}, 1, -1, 1.5), false);
  t.add(random_tensor(a.type, {a.batch, a.kv_heads, past, a.depth}, 2, -1.5, 1.5), false);
  t.add(random_tensor(a.type, {a.batch, a.kv_heads, past, value_depth}, 3, -1, 2), false);
  t.add(random_tensor(a.type, {a.batch, a.kv_heads, c.fresh, a.depth}, 4, -1.5, 1.5), false);
  t.add(random_tensor(a.type, {a.batch, a.kv_heads, c.fresh, value_depth}, 5, -1, 2), false);
  for (const Tensor& m : a.masks) t.add(m, a.constant_masks);
  if (!a.program.empty()) t.node.program = expr::Program::parse(a.program);
  t.result(a.type, {a.batch, a.heads, a.queries, value_depth});
  t.result(a.type, {a.batch, a.kv_heads, a.keys, a.depth});
  t.result(a.type, {a.batch, a.kv_heads, a.keys, value_depth});
  return t;
}

/// What a GPU offers; nothing where it refuses the problem.
std::vector<Candidate> candidates_of(const Trial& t) {
  try {
    return offer(t.bound, gpu_machine()).candidates;
  } catch (const Error& e) {
    if (e.code() != ExitCode::unsupported) throw;
    return {};
  }
}

/// All candidates are right; their configurations.
std::vector<std::string> expect_right(Trial t, double near) {
  t.bound.node = &t.node;
  const std::vector<Tensor> want = evaluate(t.node, t.inputs);
  std::vector<std::string> configs;
  for (const Candidate& c : candidates_of(t)) {
    SCOPED_TRACE(c.config);
    const std::vector<Tensor> got = run_on_gpu(t, c);
    EXPECT_LE(error(got[0], want[0]), near);
    for (const size_t o : {1, 2})
      EXPECT_EQ(std::memcmp(got[o].raw(), want[o].raw(), static_cast<size_t>(want[o].nbytes())), 0) << "present " << o;
    configs.push_back(c.config);
  }
  return configs;
}
std::vector<std::string> expect_right(const Cached& c) {
  SCOPED_TRACE(fmt::format("{}x{}/{}x{}x{}x{}, {} new", c.of.batch, c.of.heads, c.of.kv_heads, c.of.queries, c.of.keys,
                           c.of.depth, c.fresh));
  return expect_right(cached(c), tolerance(c.of.type));
}

TEST(GpuCachedAttention, of_lengths_that_no_tile_fits) {
  for (const int64_t keys : {2, 63, 64, 65, 129, 300, 1025})
    EXPECT_GE(expect_right({{.batch = 2, .queries = 1, .keys = keys, .depth = 128}}).size(), 2u);
}

TEST(GpuCachedAttention, of_new_rows_within_one_tile_and_over_two) {
  for (const int64_t fresh : {1, 3, 16, 64, 70, 199})
    for (const int64_t keys : {200, 256}) EXPECT_FALSE(expect_right({{.queries = 4, .keys = keys}, fresh}).empty());
}

class GpuCachedAttentionDepth : public ::testing::TestWithParam<int64_t> {};
TEST_P(GpuCachedAttentionDepth, any_multiple_of_8) {
  for (const DType type : {DType::f16, DType::bf16})
    EXPECT_FALSE(expect_right({{.type = type, .queries = 1, .keys = 150, .depth = GetParam()}}).empty());
}
INSTANTIATE_TEST_SUITE_P(Depths, GpuCachedAttentionDepth, ::testing::Values(8, 24, 40, 64, 72, 80, 96, 128, 256));

TEST(GpuCachedAttention, of_values_of_another_depth) {
  EXPECT_FALSE(expect_right({{.queries = 1, .keys = 500, .depth = 72, .value_depth = 8}}).empty());
  EXPECT_FALSE(expect_right({{.queries = 2, .keys = 100, .depth = 40, .value_depth = 128}, 2}).empty());
}

TEST(GpuCachedAttention, of_groups_of_heads) {
  for (const int64_t queries : {1, 3})
    for (const std::string& config :
         expect_right({{.batch = 2, .heads = 8, .kv_heads = 2, .queries = queries, .keys = 150}, queries}))
      EXPECT_NE(config.find("packed"), std::string::npos) << "two blocks write the same rows";
  EXPECT_FALSE(expect_right({{.heads = 20, .kv_heads = 1, .queries = 1, .keys = 700, .depth = 128}}).empty());
}

TEST(GpuCachedAttention, of_masks_that_are_read_and_constant_ones) {
  for (const int64_t queries : {1, 5}) {
    const int64_t keys = 197;
    Cached c{{.batch = 2, .heads = 4, .kv_heads = 2, .queries = queries, .keys = keys, .program = add_f16}, queries};
    c.of.masks = {random_tensor(DType::f16, {2, 1, queries, keys}, 9, -3, 3)};
    EXPECT_FALSE(expect_right(c).empty());
    // As generation has it, and one of which the last query sees no new row: that attention must not write the cache.
    for (const int64_t less : {0, 1}) {
      c.of.masks = {
          mask(DType::f16, queries, keys, -infinity, [&](int64_t i, int64_t j) { return j > i + keys - queries - less; })};
      c.of.constant_masks = true;
      EXPECT_EQ(expect_right(c).empty(), less == 1) << queries;
    }
    c.of.constant_masks = false;
  }
}

TEST(GpuCachedAttention, of_rows_that_lie_in_a_joined_product_and_a_larger_cache) {
  constexpr int64_t heads = 4, depth = 64, fresh = 2, past = 100;
  Trial t =
      cached({{.batch = 2, .heads = heads, .kv_heads = heads, .queries = fresh, .keys = past + fresh, .depth = depth}, fresh});
  for (const size_t i : {0, 3, 4}) t.bound.inputs[i].strides = {fresh * 3 * heads * depth, depth, 3 * heads * depth, 1};
  for (const size_t i : {1, 2}) t.bound.inputs[i].strides = {heads * 160 * depth, 160 * depth, depth, 1};
  for (const size_t o : {1, 2}) t.bound.outputs[o].strides = {heads * 192 * depth, 192 * depth, depth, 1};
  EXPECT_FALSE(expect_right(std::move(t), tolerance(DType::f16)).empty());
}

TEST(GpuCachedAttention, is_refused_where_blocks_would_write_the_same_rows_or_rows_lie_anywhere) {
  EXPECT_TRUE(expect_right({{.heads = 8, .kv_heads = 2, .queries = 40, .keys = 100}, 40}).empty()) << "heads that share keys";
  EXPECT_TRUE(expect_right({{.queries = 200, .keys = 300}, 200}).empty()) << "more rows than a tile has";
  EXPECT_TRUE(expect_right({{.queries = 1, .keys = 100, .depth = 36}}).empty()) << "rows at multiples of 8 bytes";
  EXPECT_TRUE(expect_right({{.type = DType::f32, .queries = 1, .keys = 100}}).empty()) << "f32";
}

}  // namespace
}  // namespace smelt::ops::attention
