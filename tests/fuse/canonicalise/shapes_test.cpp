// Shapes read from the inputs, duplicates merged.
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

struct Dynamic : Builder {
  ValueId ids = input("ids", {Dim("batch"), Dim("seq")}), x = node("x", "Exp", {ids}, {Dim("batch"), Dim("seq")});
  ValueId shape_of(const std::string& n, ValueId v, int64_t rank, std::map<std::string, Attribute> attrs = {}) {
    return node(n, "Shape", {v}, {rank}, DType::i64, std::move(attrs));
  }
};

TEST(ShapeFromInputs, reads_the_inputs_instead_of_a_computed_value) {
  Dynamic b;
  ValueId wide = b.node("wide", "Unsqueeze", {b.x, b.ints({1})}, {Dim("batch"), 1, Dim("seq")});
  b.output(b.shape_of("s", wide, 3));
  EXPECT_EQ(
      matches(rewrite_and_compare(b.g, {"dead_code", "shape_from_inputs"}, {{"batch", 2}, {"seq", 5}}), "shape_from_inputs"), 1u);
  EXPECT_EQ(count(b.g, "Exp"), 0u);  // nothing else read it
}

TEST(ShapeFromInputs, reads_one_extent_without_a_concat) {
  Dynamic b;
  b.output(b.node("n", "Neg", {b.shape_of("s", b.x, 1, {{"start", int64_t{1}}})}, {1}, DType::i64));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"shape_from_inputs"}, {{"batch", 2}, {"seq", 5}}), "shape_from_inputs"), 1u);
  EXPECT_EQ(count(b.g, "Concat"), 0u);
}

TEST(ShapeFromInputs, leaves_an_extent_that_no_input_has_alone) {
  Dynamic b;
  ValueId found = b.node("nz", "NonZero", {b.ids}, {2, Dim()}, DType::i64);
  b.output(b.shape_of("s", found, 2));
  EXPECT_EQ(rejection(run_only(b.g, "shape_from_inputs"), "shape_from_inputs"), "unknown_shape");
}

TEST(MergeDuplicates, keeps_one_of_two) {
  Builder b;
  ValueId x = b.input("x", {2, 3});
  ValueId p = b.node("p", "Add", {x, b.scalar(1)}, {2, 3}), q = b.node("q", "Add", {x, b.scalar(1)}, {2, 3});
  b.output(b.node("y", "Mul", {p, q}, {2, 3}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"merge_duplicates"}), "merge_duplicates"), 1u);
  EXPECT_EQ(count(b.g, "Add"), 1u);
}

TEST(MergeDuplicates, tells_attributes_and_constants_apart) {
  Builder b;
  ValueId x = b.input("x", {2, 3});
  b.output(b.node("p", "Add", {x, b.scalar(1)}, {2, 3}));
  b.output(b.node("q", "Add", {x, b.scalar(2)}, {2, 3}));
  b.output(b.node("r", "Softmax", {x}, {2, 3}, DType::f32, {{"axis", int64_t{0}}}));
  b.output(b.node("s", "Softmax", {x}, {2, 3}, DType::f32, {{"axis", int64_t{1}}}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"merge_duplicates"}), "merge_duplicates"), 0u);
}

TEST(MergeDuplicates, leaves_random_numbers_alone) {
  Builder b;
  ValueId x = b.input("x", {2, 3});
  ValueId p = b.node("p", "RandomNormalLike", {x}, {2, 3}), q = b.node("q", "RandomNormalLike", {x}, {2, 3});
  b.output(b.node("y", "Sub", {p, q}, {2, 3}));
  EXPECT_EQ(rejection(run_only(b.g, "merge_duplicates"), "merge_duplicates"), "not looked at");
}

TEST(MergeDuplicates, leaves_a_graph_output_its_node) {
  Builder b;
  ValueId x = b.input("x", {2, 3});
  b.output(b.node("p", "Exp", {x}, {2, 3}));
  b.output(b.node("q", "Exp", {x}, {2, 3}));
  EXPECT_EQ(rejection(run_only(b.g, "merge_duplicates"), "merge_duplicates"), "graph_output");
}

}  // namespace
}  // namespace smelt::fuse
