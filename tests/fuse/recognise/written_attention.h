// Attention as exporters write it.
#pragma once

#include "ops/core/expand.h"
#include "support/equivalence.h"

namespace smelt::fuse {

/// Attention as exporters write it: q, k, v of [B, H, S, D].
struct Written : Builder {
  DType type;
  Dim batch = 2, q_len = 3, k_len = 5;
  int64_t heads = 4, kv_heads = 4, width = 8;
  ValueId q, k, v;

  explicit Written(DType t = DType::f32) : type(t) {}
  SymShape of(Dim b, Dim h, Dim s, Dim d) { return {b, h, s, d}; }
  SymShape scores_shape() { return of(batch, heads, q_len, k_len); }
  void inputs() {
    q = input("q", of(batch, heads, q_len, width), type);
    k = input("k", of(batch, kv_heads, k_len, width), type);
    v = input("v", of(batch, kv_heads, k_len, width), type);
  }
  ValueId at(const std::string& n, const std::string& op, std::vector<ValueId> in, SymShape s) {
    return node(n, op, std::move(in), s, type);
  }
  ValueId transposed(ValueId x) {
    return node("kt", "Transpose", {x}, of(batch, heads, width, k_len), type, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  }
  ValueId repeated(const std::string& n, ValueId x, bool tile = false) {
    const int64_t times = heads / kv_heads;
    ValueId five = at(n + "_u", "Unsqueeze", {x, ints({2})}, {batch, kv_heads, 1, k_len, width});
    ValueId wide =
        at(n + "_e", tile ? "Tile" : "Expand", {five, ints({1, 1, times, 1, 1})}, {batch, kv_heads, times, k_len, width});
    return at(n + "_r", "Reshape", {wide, ints({0, heads, -1, width})}, of(batch, heads, k_len, width));
  }
  ValueId number(double x) { return scalar(x, type); }
  ValueId product(ValueId a, ValueId b) { return at("scores", "MatMul", {a, b}, scores_shape()); }
  ValueId finish(ValueId scores, ValueId values, int64_t axis = -1) {
    ValueId p = node("softmax", "Softmax", {scores}, scores_shape(), type, {{"axis", axis}});
    return at("y", "MatMul", {p, values}, of(batch, heads, q_len, width));
  }
  Ledger fuse(const Bindings& symbols = {}) { return rewrite_and_compare(g, {"attention"}, symbols); }
  std::string why() { return rejection(run_only(g, "attention"), "attention"); }
  void expect_fused(const Bindings& symbols = {}) {
    EXPECT_EQ(matches(fuse(symbols), "attention"), 1u);
    EXPECT_EQ(count(g, "Softmax") + count(g, "MatMul"), 0u);
  }
  float scale() { return only(g, "Attention").get_float("scale", 0); }
};

}  // namespace smelt::fuse
