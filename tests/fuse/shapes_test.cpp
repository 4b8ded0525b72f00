// Extents that are proven, shapes read from the inputs, duplicates merged.
#include "equivalence.h"

namespace smelt::fuse {
namespace {

Extent symbol(const std::string& s) { return {-1, s, ValueId::none, 0}; }

TEST(Extents, follow_shape_arithmetic_through_a_reshape) {
  Builder b;
  ValueId x = b.input("x", {Dim("batch"), Dim("seq"), 12});
  ValueId s = b.node("shape", "Shape", {x}, {3}, DType::i64);
  ValueId front = b.node("front", "Slice", {s, b.ints({0}), b.ints({2})}, {2}, DType::i64);
  ValueId target = b.node("target", "Concat", {front, b.ints({4, 3})}, {4}, DType::i64, {{"axis", int64_t{0}}});
  ValueId y = b.node("y", "Reshape", {x, target}, {Dim(), Dim(), Dim(), Dim()});
  EXPECT_EQ(*extents(b.g, y), (Extents{symbol("batch"), symbol("seq"), Extent::of(4), Extent::of(3)}));
}

TEST(Extents, infer_the_remaining_extent_of_a_reshape) {
  Builder b;
  ValueId x = b.input("x", {Dim("batch"), 6, 4});
  EXPECT_EQ(*extents(b.g, b.node("y", "Reshape", {x, b.ints({0, -1})}, {Dim(), Dim()})),
            (Extents{symbol("batch"), Extent::of(24)}));
  EXPECT_EQ(*extents(b.g, b.node("z", "Reshape", {x, b.ints({-1, 24})}, {Dim(), Dim()})),
            (Extents{symbol("batch"), Extent::of(24)}));
  ValueId w = b.node("w", "Reshape", {x, b.ints({-1, 4})}, {Dim(), Dim()});  // batch * 6: neither a number nor a symbol
  EXPECT_FALSE((*extents(b.g, w))[0].known());
  EXPECT_NE((*extents(b.g, w))[0], symbol("batch"));
}

TEST(Extents, do_not_take_two_unknown_extents_for_equal) {
  Builder b;
  ValueId x = b.input("x", {Dim(), 4}), z = b.input("z", {Dim(), 4});
  EXPECT_FALSE(same_shape(b.g, x, z));
  EXPECT_TRUE(same_shape(b.g, x, b.node("e", "Exp", {x}, {Dim(), 4})));
  EXPECT_FALSE(same_shape(b.g, x, b.node("a", "Add", {x, z}, {Dim(), 4})));
  EXPECT_FALSE(broadcasts_to(b.g, z, x));
}

TEST(Extents, distrust_symbols_that_shape_inference_made_up) {
  Builder b;
  ValueId x = b.input("x", {Dim("n")});
  ValueId y = b.node("y", "Exp", {x}, {Dim("unk__7")});
  EXPECT_TRUE(same_shape(b.g, x, y));
}

TEST(Extents, of_a_broadcast_need_one_that_is_proven_larger) {
  Builder b;
  ValueId x = b.input("x", {Dim("n"), 1}), z = b.input("z", {1, 5});
  EXPECT_EQ(*extents(b.g, b.node("a", "Add", {x, z}, {Dim(), Dim()})), (Extents{symbol("n"), Extent::of(5)}));
  ValueId m = b.input("m", {Dim("m"), 5});
  EXPECT_FALSE((*extents(b.g, b.node("c", "Add", {x, m}, {Dim(), Dim()})))[0] == symbol("n"));  // n may be 1
}

TEST(Extents, of_no_axes_stay_none_whatever_is_added) {
  Builder b;
  ValueId s = b.node("shape", "Shape", {b.input("x", {Dim("n")})}, {1}, DType::i64);
  ValueId none = b.node("none", "Slice", {s, b.ints({0}), b.ints({0})}, {0}, DType::i64);
  for (const auto& inputs : {std::vector{none, b.ints({1})}, std::vector{b.ints({1}), none}}) {
    const auto e = shape_values(b.g, b.node("", "Add", inputs, {0}, DType::i64));
    ASSERT_TRUE(e.has_value());
    EXPECT_TRUE(e->empty());
  }
}

// Two ways through each of 40 steps are 2^40 ways in all: these finish only if every value is followed once.
TEST(Extents, of_a_long_residual_chain_over_an_unnamed_dimension) {
  for (const Dim& d : {Dim(), Dim("unk__0")}) {
    Builder b;
    const ValueId x = b.input("x", {d, 4});
    ValueId y = x;
    for (int i = 0; i < 40; ++i) {
      ValueId p = b.node("", "MatMul", {b.node("", "Exp", {y}, {Dim(), 4}), b.weights("", {4, 4})}, {Dim(), 4});
      y = b.node("", "Add", {p, y}, {Dim(), 4});
    }
    b.output(y);
    EXPECT_TRUE(same_shape(b.g, x, y));
    EXPECT_EQ(refine_shapes(b.g), 0);
  }
}

TEST(Extents, are_not_followed_without_end) {
  Builder b;
  const ValueId x = b.input("x", {Dim(), 4});
  ValueId y = x;
  for (int i = 0; i < 1000; ++i) y = b.node("", "Add", {b.node("", "Exp", {y}, {Dim(), 4}), y}, {Dim(), 4});
  EXPECT_FALSE(same_shape(b.g, x, y));
  EXPECT_EQ(*extents(b.g, y), *extents(b.g, y));
}

TEST(Extents, of_long_shape_arithmetic) {
  Builder b;
  ValueId one = b.node("shape", "Shape", {b.input("x", {1, 1})}, {2}, DType::i64), n = one, longer = one;
  for (int i = 0; i < 40; ++i) {
    n = b.node("", "Mul", {n, n}, {2}, DType::i64);
    longer = b.node("", "Concat", {longer, longer}, {Dim()}, DType::i64, {{"axis", int64_t{0}}});
  }
  EXPECT_EQ(*shape_values(b.g, n), (Extents{Extent::of(1), Extent::of(1)}));
  EXPECT_FALSE(shape_values(b.g, longer).has_value());
}

TEST(RefineShapes, gives_numbers_once_inputs_have_them) {
  Builder b;
  ValueId x = b.input("x", {1, 3, 8, 8});
  ValueId y = b.node("conv", "Conv", {x, b.weights("w", {4, 3, 3, 3})}, {1, 4, Dim("unk__1"), Dim("unk__2")});
  b.output(y);
  EXPECT_GT(refine_shapes(b.g), 0);
  EXPECT_EQ(to_shape(*b.g.value(y).shape), (Shape{1, 4, 6, 6}));
}

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
