// Transposes behind or before a Reshape whose axes move together.
#include "fuse/recognise/written_attention.h"

namespace smelt::fuse {
namespace {

/// x of 320 elements, its leading axes merged to [8, 5, 8], the last two swapped.
ValueId merged_and_swapped(Builder& b, const SymShape& x, const std::vector<int64_t>& shape) {
  const ValueId merged = b.node("merge", "Reshape", {b.input("x", x), b.ints(shape)}, {8, 5, 8});
  return b.node("swap", "Transpose", {merged}, {8, 8, 5}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

TEST(TransposeOfMergedAxes, becomes_a_transpose_of_the_last_two_axes) {
  Builder b;
  const ValueId swapped = merged_and_swapped(b, {2, 4, 5, 8}, {-1, 5, 8});
  b.output(b.node("y", "Reshape", {swapped, b.ints({2, 4, 8, 5})}, {2, 4, 8, 5}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"transpose_of_merged_axes"}), "transpose_of_merged_axes"), 1u);
  EXPECT_EQ(only(b.g, "Transpose", onnx_domain).get_ints("perm"), (std::vector<int64_t>{0, 1, 3, 2}));
  EXPECT_EQ(count(b.g, "Reshape"), 0u);
}

TEST(TransposeOfMergedAxes, keeps_one_reshape_when_the_leading_axes_come_out_otherwise) {
  Builder b;
  const ValueId swapped = merged_and_swapped(b, {2, 2, 2, 5, 8}, {8, 5, 8});
  b.output(b.node("y", "Reshape", {swapped, b.ints({2, 4, 8, 5})}, {2, 4, 8, 5}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"transpose_of_merged_axes"}), "transpose_of_merged_axes"), 1u);
  EXPECT_EQ(count(b.g, "Reshape"), 1u);
}

TEST(TransposeOfMergedAxes, leaves_a_reshape_of_the_last_axes_alone) {
  Builder b;
  ValueId x = b.input("x", {2, 6, 8});
  ValueId swapped = b.node("swap", "Transpose", {x}, {2, 8, 6}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  b.output(b.node("y", "Reshape", {swapped, b.ints({2, 8, 2, 3})}, {2, 8, 2, 3}));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"transpose_of_merged_axes"}), "transpose_of_merged_axes"), "not looked at");
}

TEST(TransposeOfMergedAxes, needs_known_leading_axes_when_they_change) {
  Builder b;
  ValueId x = b.input("x", {Dim("n"), 2, 5, 8}),
          shape = b.node("shape", "Shape", {b.input("like", {Dim("a"), Dim("b"), 8, 5})}, {4}, DType::i64);
  ValueId merged = b.node("merge", "Reshape", {x, b.ints({-1, 5, 8})}, {Dim(), 5, 8});
  ValueId swapped = b.node("swap", "Transpose", {merged}, {Dim(), 8, 5}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  b.output(b.node("y", "Reshape", {swapped, shape}, {Dim(), Dim(), 8, 5}));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"transpose_of_merged_axes"}, {{"n", 3}, {"a", 2}, {"b", 3}}),
                      "transpose_of_merged_axes"),
            "unknown_shape");
}

// A model that is read for its structure need not declare shapes that fit its operators.
TEST(TransposeOfMergedAxes, survives_declared_shapes_of_fewer_than_two_axes) {
  for (const SymShape& declared : {SymShape{}, SymShape{8}}) {
    Builder b;
    ValueId x = b.input("x", {4, 5, 8});
    ValueId swapped = b.node("swap", "Transpose", {x}, declared, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    b.output(b.node("y", "Reshape", {swapped, b.ints({2, 2, 8, 5})}, {2, 2, 8, 5}));
    EXPECT_EQ(rejection(run_only(b.g, "transpose_of_merged_axes"), "transpose_of_merged_axes"), "not looked at");
  }
}

TEST(TransposeOfMergedAxes, stays_apart_when_the_transpose_has_another_reader) {
  Builder b;
  const ValueId swapped = merged_and_swapped(b, {2, 4, 5, 8}, {-1, 5, 8});
  b.output(b.node("y", "Reshape", {swapped, b.ints({2, 4, 8, 5})}, {2, 4, 8, 5}));
  b.output(b.node("z", "Neg", {swapped}, {8, 8, 5}));
  EXPECT_EQ(rejection(run_only(b.g, "transpose_of_merged_axes"), "transpose_of_merged_axes"), "extra_reader");
}

}  // namespace
}  // namespace smelt::fuse
