// Keys of an attention that stand transposed.
#include "fuse/recognise/written_attention.h"

namespace smelt::fuse {
namespace {

/// Keys of [S, B * H, D] made [B, H, D, S]: what is left of a projection of all heads after transposes have been merged.
struct TurnedKeys : Written {
  ValueId kt;
  explicit TurnedKeys(std::vector<int64_t> target = {2, 4, 8, 5}) {
    inputs();
    ValueId turned =
        node("turn", "Transpose", {input("kx", {5, 8, 8})}, {8, 8, 5}, type, {{"perm", std::vector<int64_t>{1, 2, 0}}});
    kt = node("split", "Reshape", {turned, ints(target)}, of(2, 4, 8, 5));
    output(finish(product(q, kt), v));
  }
};

/// The keys are an input of these extents with its axes in another order.
Written keys_of_a_transpose(SymShape shape, std::vector<int64_t> perm) {
  Written b;
  b.inputs();
  const ValueId kt =
      b.node("turn", "Transpose", {b.input("kx", std::move(shape))}, b.of(2, 4, 8, 5), b.type, {{"perm", std::move(perm)}});
  b.output(b.finish(b.product(b.q, kt), b.v));
  return b;
}

TEST(AttentionKeys, lie_side_by_side_where_their_transpose_can_leave_them_so) {
  TurnedKeys b;
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"attention", "attention_keys"}), "attention_keys"), 1u);
  EXPECT_EQ(only(b.g, "Attention").get_int("k_transposed", 0), 0);
  EXPECT_EQ(only(b.g, "Transpose", onnx_domain).get_ints("perm"), (std::vector<int64_t>{1, 0, 2}));
}

TEST(AttentionKeys, of_a_transpose_without_a_reshape) {
  Written b = keys_of_a_transpose({2, 5, 4, 8}, {0, 2, 3, 1});
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"attention", "attention_keys"}), "attention_keys"), 1u);
  EXPECT_EQ(only(b.g, "Transpose", onnx_domain).get_ints("perm"), (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(AttentionKeys, stay_where_something_else_reads_them) {
  TurnedKeys b;
  b.output(b.node("z", "Neg", {b.kt}, b.of(2, 4, 8, 5)));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"attention", "attention_keys"}), "attention_keys"), "extra_reader");
}

TEST(AttentionKeys, stay_where_the_last_axis_is_another) {
  Written b = keys_of_a_transpose({2, 8, 5, 4}, {0, 3, 1, 2});
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"attention", "attention_keys"}), "attention_keys"), "wrong_axis");
}

TEST(AttentionKeys, stay_where_the_reshape_splits_them) {
  Written b;
  b.inputs();
  ValueId turned =
      b.node("turn", "Transpose", {b.input("kx", {5, 2, 32})}, {2, 32, 5}, b.type, {{"perm", std::vector<int64_t>{1, 2, 0}}});
  b.output(b.finish(b.product(b.q, b.node("split", "Reshape", {turned, b.ints({2, 4, 8, 5})}, b.of(2, 4, 8, 5))), b.v));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"attention", "attention_keys"}), "attention_keys"), "wrong_shape");
}

}  // namespace
}  // namespace smelt::fuse
