#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// ONNX's Attention over [B, H, S, D], or packed as [B, S, H * D].
struct Operator : Builder {
  DType type = DType::f32;
  Dim batch = 2, steps = 3, keys = 5;
  int64_t heads = 4, kv_heads = 4, size = 8, v_size = 6, past = 0;
  bool packed = false;
  std::map<std::string, Attribute> attrs;
  std::vector<ValueId> inputs;

  SymShape shape(int64_t h, Dim s, int64_t d) const {
    return packed ? SymShape{batch, s, Dim(h * d)} : SymShape{batch, Dim(h), s, Dim(d)};
  }
  void qkv() {
    inputs = {input("q", shape(heads, steps, size), type), input("k", shape(kv_heads, keys, size), type),
              input("v", shape(kv_heads, keys, v_size), type)};
  }
  void caches() {
    inputs.resize(4, ValueId::none);
    inputs.push_back(input("past_key", {batch, kv_heads, past, size}, type));
    inputs.push_back(input("past_value", {batch, kv_heads, past, v_size}, type));
  }
  /// A mask that hides about a quarter.
  ValueId hides(SymShape s) { return node("hides", "Greater", {input("m", s), scalar(-1)}, s, DType::boolean); }
  void finish(size_t outputs = 1) {
    if (packed) {
      attrs["q_num_heads"] = heads;
      attrs["kv_num_heads"] = kv_heads;
    }
    const Dim total = keys.known() ? Dim(keys.value + past) : keys;
    Node n;
    n.op = n.name = "Attention";
    n.opset = 24;
    n.inputs = inputs;
    n.attrs = attrs;
    n.sources = {static_cast<int32_t>(g.sources().size())};
    g.sources().push_back({"attention", "Attention", {}});
    const SymShape shapes[] = {shape(heads, steps, v_size),
                               {batch, kv_heads, total, size},
                               {batch, kv_heads, total, v_size},
                               {batch, heads, steps, total}};
    for (size_t i = 0; i < outputs; ++i) n.outputs.push_back(g.add_value("", type, shapes[i]));
    g.add_node(n);
    for (ValueId v : n.outputs) output(v);
  }
  void expect_fused(const std::string& form, const Bindings& symbols = {}) {
    const Ledger ledger = rewrite_and_compare(g, {"attention_operator"}, symbols);
    ASSERT_EQ(matches(ledger, "attention_operator"), 1u);
    EXPECT_EQ(ledger.front().form, form);
    EXPECT_EQ(count(g, "Attention"), 0u);
    EXPECT_EQ(count(g, "Attention", smelt_domain), 1u);
  }
  std::string why() { return rejection(run_only(g, "attention_operator"), "attention_operator"); }
};

TEST(AttentionOperator, becomes_the_fused_one_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    SCOPED_TRACE(name(t));
    Operator b;
    b.type = t;
    b.qkv();
    b.finish();
    b.expect_fused("");
  }
}

TEST(AttentionOperator, takes_scale_softcap_and_grouped_heads) {
  Operator b;
  b.kv_heads = 2;
  b.attrs = {{"scale", 0.3f}, {"softcap", 1.5f}};
  b.qkv();
  b.finish();
  b.expect_fused("softcap + grouped heads");
  EXPECT_EQ(only(b.g, "Attention").get_float("scale", 0), 0.3f);
}

TEST(AttentionOperator, takes_packed_heads_with_a_symbolic_batch) {
  Operator b;
  b.packed = true;
  b.batch = Dim(std::string("n"));
  b.kv_heads = 2;
  b.qkv();
  b.finish();
  b.expect_fused("grouped heads", {{"n", 3}});
}

TEST(AttentionOperator, takes_a_boolean_mask_and_gives_zeros_where_it_hides_all) {
  Operator b;
  b.qkv();
  b.inputs.push_back(b.hides({2, 1, 3, 5}));
  b.finish();
  b.expect_fused("mask");
  Operator all;
  all.qkv();
  all.inputs.push_back(all.constant("none", Tensor::of<bool>({3, 1}, {true, false, true})));
  all.finish();
  all.expect_fused("mask");
}

TEST(AttentionOperator, is_causal_with_and_without_an_added_mask) {
  Operator b;
  b.attrs = {{"is_causal", int64_t{1}}};
  b.qkv();
  b.finish();
  b.expect_fused("causal");
  Operator both;
  both.attrs = {{"is_causal", int64_t{1}}};
  both.qkv();
  both.inputs.push_back(both.input("bias", {4, 3, 5}));
  both.finish();
  both.expect_fused("causal + mask");
}

TEST(AttentionOperator, puts_a_cache_before_the_fresh_keys) {
  for (bool packed : {false, true}) {
    SCOPED_TRACE(packed);
    Operator b;
    b.packed = packed;
    b.past = 7;
    b.attrs = {{"is_causal", int64_t{1}}};
    b.qkv();
    b.caches();
    b.finish(3);
    b.expect_fused("causal + cache");
    EXPECT_EQ(count(b.g, "Concat"), 2u);
  }
}

TEST(AttentionOperator, gives_present_keys_without_a_past) {
  Operator b;
  b.packed = true;
  b.qkv();
  b.finish(3);
  b.expect_fused("");
}

TEST(AttentionOperator, stays_when_the_scores_are_an_output) {
  Operator b;
  b.qkv();
  b.finish(4);
  EXPECT_EQ(b.why(), "extra_reader");
}

TEST(AttentionOperator, stays_when_its_mask_has_a_type_that_nothing_is_added_in) {
  Operator b;
  b.qkv();
  b.inputs.push_back(b.input("mask", {3, 5}, DType::u4));
  b.finish();
  EXPECT_EQ(b.why(), "wrong_type");
}

TEST(AttentionOperator, stays_when_its_result_is_said_to_have_another_type) {
  Operator b;
  b.qkv();
  b.finish();
  b.g.set_type(b.g.outputs()[0], DType::f64);
  EXPECT_EQ(b.why(), "wrong_type");
}

TEST(AttentionOperator, stays_when_queries_keys_and_values_do_not_fit) {
  Operator heads;
  heads.kv_heads = 3;
  heads.qkv();
  heads.finish();
  EXPECT_EQ(heads.why(), "wrong_shape");
  Operator depth;
  depth.qkv();
  depth.inputs[1] = depth.input("k of another depth", {2, 4, 5, 7});
  depth.finish();
  EXPECT_EQ(depth.why(), "wrong_shape");
  Operator rank;
  rank.qkv();
  rank.inputs[2] = rank.input("v of three axes", {2, 5, 24});
  rank.finish();
  EXPECT_EQ(rank.why(), "wrong_rank");
  Operator half;
  half.past = 7;
  half.qkv();
  half.caches();
  half.inputs.pop_back();
  half.finish(3);
  EXPECT_EQ(half.why(), "missing_input");
}

TEST(AttentionOperator, stays_when_a_window_limits_the_keys) {
  Operator b;
  b.attrs = {{"left_window_size", int64_t{2}}};
  b.qkv();
  b.finish();
  EXPECT_EQ(b.why(), "wrong_attribute");
}

TEST(AttentionOperator, stays_when_the_number_of_valid_keys_is_computed) {
  Operator b;
  b.qkv();
  b.inputs.resize(6, ValueId::none);
  b.inputs.push_back(b.input("lengths", {2}, DType::i64));
  b.finish();
  EXPECT_EQ(b.why(), "unsupported");
}

TEST(AttentionOperator, makes_the_causal_mask_in_the_run_when_a_length_is_not_known) {
  for (bool cached : {false, true}) {
    SCOPED_TRACE(cached);
    Operator b;
    b.keys = Dim(std::string("s"));
    if (cached) b.past = 7;
    b.attrs = {{"is_causal", int64_t{1}}};
    b.qkv();
    if (cached) b.caches();
    b.finish(cached ? 3 : 1);
    EXPECT_EQ(verdict(b, attention_operator_of_known_lengths, "Attention"), "unknown_shape by Attention");
    b.expect_fused(cached ? "causal + cache" : "causal", {{"s", 5}});
    EXPECT_EQ(count(b.g, "Range"), 2u);
  }
}

TEST(AttentionOperator, stays_when_the_mask_is_shorter_than_the_keys) {
  Operator b;
  b.qkv();
  b.inputs.push_back(b.hides({3, 4}));
  b.finish();
  EXPECT_EQ(b.why(), "wrong_shape");
}

}  // namespace
}  // namespace smelt::fuse
