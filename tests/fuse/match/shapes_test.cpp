// Extents that are proven.
#include "support/equivalence.h"

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

TEST(Extents, follow_shape_arithmetic_into_a_filled_tensor) {
  Builder b;
  ValueId x = b.input("x", {Dim("atoms"), 3});
  ValueId atoms = b.node("atoms", "Shape", {x}, {1}, DType::i64, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  ValueId target = b.node("target", "Concat", {atoms, b.ints({128})}, {2}, DType::i64, {{"axis", int64_t{0}}});
  EXPECT_EQ(*extents(b.g, b.node("y", "ConstantOfShape", {target}, {Dim(), Dim()})), (Extents{symbol("atoms"), Extent::of(128)}));
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

}  // namespace
}  // namespace smelt::fuse
