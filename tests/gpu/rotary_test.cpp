// Generated rotary embeddings against the processor's reference.
#include "base/error.h"
#include "gpu/gpu_trial.h"

namespace smelt::ops {
namespace {

struct Rotary {
  DType type = DType::f16, tables = DType::f16;
  Shape shape, table;
  bool interleaved = false;
};

Trial trial(const Rotary& r) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "RotaryEmbedding";
  if (r.interleaved) t.node.attrs["interleaved"] = int64_t{1};
  t.add(random_tensor(r.type, r.shape, 1, -2, 2), false);
  t.add(random_tensor(r.tables, r.table, 2), false);
  t.add(random_tensor(r.tables, r.table, 3), false);
  t.result(r.type, r.shape);
  return t;
}

// Both round once; a multiplication and an addition may be fused.
double tolerance(DType t) { return t == DType::f64 ? 1e-15 : t == DType::f32 ? 2e-7 : t == DType::f16 ? 1.0 / 1024 : 1.0 / 128; }

size_t expect(const Rotary& r) {
  SCOPED_TRACE(fmt::format("{} {}", to_string(r.shape), to_string(r.table)));
  Trial t = trial(r);
  return check_on_gpu(t, tolerance(r.type)).size();
}

TEST(GpuRotary, tables_of_half_and_of_all_columns) {
  for (const bool interleaved : {false, true})
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (const int64_t depth : {2, 6, 32, 40, 128})
        for (const int64_t columns : {depth / 2, depth})
          EXPECT_GE(
              expect(
                  {.type = type, .tables = type, .shape = {2, 3, 17, depth}, .table = {17, columns}, .interleaved = interleaved}),
              1u);
}

TEST(GpuRotary, tables_of_another_type_and_broadcast) {
  for (const bool interleaved : {false, true}) {
    EXPECT_EQ(expect({.tables = DType::f32, .shape = {2, 4, 9, 64}, .table = {2, 1, 1, 32}, .interleaved = interleaved}), 4u);
    EXPECT_EQ(expect({.tables = DType::f32, .shape = {2, 4, 9, 64}, .table = {2, 1, 9, 64}, .interleaved = interleaved}), 4u);
    EXPECT_GE(expect({.type = DType::bf16, .tables = DType::bf16, .shape = {5, 48}, .table = {1}, .interleaved = interleaved}),
              1u);
  }
}

TEST(GpuRotary, heads_that_lie_beside_each_other) {
  for (const bool interleaved : {false, true}) {
    Trial t = trial({.shape = {2, 4, 9, 32}, .table = {9, 16}, .interleaved = interleaved});
    t.bound.inputs[0].strides = {9 * 4 * 32, 32, 4 * 32, 1};
    EXPECT_GE(check_on_gpu(t, tolerance(DType::f16)).size(), 3u);
    t.bound.outputs[0].strides = {9 * 4 * 32, 32, 4 * 32, 1};
    EXPECT_GE(check_on_gpu(t, tolerance(DType::f16)).size(), 3u);
  }
}

TEST(GpuRotary, rows_that_begin_anywhere_or_are_apart) {
  for (const bool interleaved : {false, true}) {
    Trial t = trial({.shape = {2, 4, 9, 32}, .table = {9, 16}, .interleaved = interleaved});
    t.bound.inputs[0].alignment = 2;
    t.bound.outputs[0].alignment = 4;
    EXPECT_GE(check_on_gpu(t, tolerance(DType::f16)).size(), 3u);
    t.bound.inputs[0].strides = {4 * 32 * 9, 32 * 9, 1, 9};
    EXPECT_GE(check_on_gpu(t, tolerance(DType::f16)).size(), 3u);
  }
}

/// Queries and keys of `heads` and `kv_heads`, turned by the same tables.
Trial joined(DType type, DType tables, int64_t heads, int64_t kv_heads, int64_t columns, bool interleaved) {
  constexpr int64_t batch = 2, length = 9, depth = 32;
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "JoinedRotary";
  if (interleaved) t.node.attrs["interleaved"] = int64_t{1};
  for (const int64_t h : {heads, kv_heads})
    t.add(random_tensor(type, {batch, h, length, depth}, static_cast<uint32_t>(h), -2, 2), false);
  for (const uint32_t seed : {7u, 8u}) t.add(random_tensor(tables, {length, columns}, seed), false);
  for (const int64_t h : {heads, kv_heads}) t.result(type, {batch, h, length, depth});
  return t;
}

/// Every candidate gives both.
size_t expect_both(Trial t, DType type) {
  t.bound.node = &t.node;
  return agree_on_gpu(t, evaluate(t.node, t.inputs), tolerance(type)).size();
}

TEST(GpuRotary, of_queries_and_keys_at_once) {
  for (const bool interleaved : {false, true})
    for (const int64_t columns : {16, 32})
      for (const int64_t kv_heads : {1, 3, 5}) {
        EXPECT_EQ(expect_both(joined(DType::f16, DType::f16, 5, kv_heads, columns, interleaved), DType::f16), 4u);
        EXPECT_EQ(expect_both(joined(DType::bf16, DType::f32, 5, kv_heads, columns, interleaved), DType::bf16), 4u);
        EXPECT_EQ(expect_both(joined(DType::f32, DType::f32, 5, kv_heads, columns, interleaved), DType::f32), 3u);
      }
}

TEST(GpuRotary, of_queries_and_keys_in_a_joined_product_and_a_cache) {
  for (const bool interleaved : {false, true}) {
    Trial t = joined(DType::f16, DType::f16, 4, 2, 16, interleaved);
    constexpr int64_t row = 8 * 32;  // of queries, keys and values
    t.bound.inputs[0].strides = t.bound.inputs[1].strides = {9 * row, 32, row, 1};
    EXPECT_EQ(expect_both(t, DType::f16), 4u);
    t.bound.outputs[1].strides = {2 * 50 * 32, 50 * 32, 32, 1};
    EXPECT_EQ(expect_both(t, DType::f16), 4u);
    t.bound.inputs[1].alignment = 2;
    EXPECT_EQ(expect_both(t, DType::f16), 4u);
  }
}

TEST(GpuRotary, nothing_to_do) { EXPECT_GE(expect({.shape = {0, 4, 9, 32}, .table = {9, 16}}), 1u); }

}  // namespace
}  // namespace smelt::ops
