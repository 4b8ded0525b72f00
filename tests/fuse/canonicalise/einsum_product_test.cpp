// Einsum as a product of matrices; transposed products; sums that are means.
#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

struct Equation : Builder {
  Equation(const std::string& equation, SymShape a, SymShape b, SymShape y, DType type = DType::f32) {
    output(node("y", "Einsum", {input("a", std::move(a), type), input("b", std::move(b), type)}, std::move(y), type,
                {{"equation", equation}}));
  }
  std::string why() { return verdict(*this, einsum_product, "y"); }
};

TEST(EinsumProduct, is_a_product_between_the_transposes_that_its_letters_ask_for) {
  struct Case {
    std::string equation;
    SymShape a, b, y;
    size_t transposes;
  };
  const std::vector<Case> cases = {{"bhij,bhjd->bhid", {2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}, 0},
                                   {"bhid,bhjd->bhij", {2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 4, 6}, 1},
                                   {"bqhd,bkhd->bhqk", {2, 4, 3, 5}, {2, 6, 3, 5}, {2, 3, 4, 6}, 2},
                                   {"bhqk,bkhd->bqhd", {2, 3, 4, 5}, {2, 5, 3, 6}, {2, 4, 3, 6}, 2},
                                   {"ij, kj -> ki", {4, 5}, {6, 5}, {6, 4}, 1},
                                   {"bij,bjk->kbi", {2, 3, 4}, {2, 4, 5}, {5, 2, 3}, 3}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    Equation b(c.equation, c.a, c.b, c.y);
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"einsum_product"}), "einsum_product"), 1u);
    EXPECT_EQ(count(b.g, "MatMul"), 1u);
    EXPECT_EQ(count(b.g, "Transpose"), c.transposes);
  }
}

TEST(EinsumProduct, leaves_other_contractions_alone) {
  EXPECT_EQ(Equation("bii,bij->bj", {2, 3, 3}, {2, 3, 4}, {2, 4}).why(), "not here");            // a diagonal
  EXPECT_EQ(Equation("...ij,...jk->...ik", {2, 3, 4}, {2, 4, 5}, {2, 3, 5}).why(), "not here");  // an ellipsis
  EXPECT_EQ(Equation("i,j->ij", {3}, {4}, {3, 4}).why(), "not here");                            // nothing is summed
  EXPECT_EQ(Equation("bij,bij->b", {2, 3, 4}, {2, 3, 4}, {2}).why(), "not here");                // two letters are
  EXPECT_EQ(Equation("ij,kl->ik", {2, 3}, {4, 5}, {2, 4}).why(), "not here");                    // each alone
  EXPECT_EQ(Equation("bij,bj->bi", {2, 3, 4}, {2, 4}, {2, 3}).why(), "not here");                // no columns
}

TEST(EinsumProduct, leaves_integers_that_matmul_is_not_defined_for) {
  for (const DType type : {DType::i8, DType::u8, DType::i16, DType::u16})
    EXPECT_EQ(Equation("ij,jk->ik", {2, 3}, {3, 4}, {2, 4}, type).why(), "not here");
  for (const DType type : {DType::i32, DType::u64, DType::f64})
    EXPECT_EQ(Equation("ij,jk->ik", {2, 3}, {3, 4}, {2, 4}, type).why(), "matched");
}

TEST(EinsumProduct, needs_summed_extents_that_are_proven_equal) {
  EXPECT_EQ(Equation("ij,jk->ik", {2, Dim("n")}, {Dim("m"), 4}, {2, 4}).why(), "unknown_shape by y");
}

TEST(EinsumGroups, are_a_product_of_what_their_letters_merge_to) {
  struct Case {
    std::string equation;
    SymShape a, b, y;
  };
  const std::vector<Case> cases = {
      {"bqc,bchw->bqhw", {2, 5, 4}, {2, 4, 3, 6}, {2, 5, 3, 6}},      // masks of queries
      {"bchw,bkc->bkhw", {2, 4, 3, 6}, {2, 5, 4}, {2, 5, 3, 6}},      // similarities with texts
      {"bhwc,hkc->bhwk", {2, 3, 5, 4}, {3, 6, 4}, {2, 3, 5, 6}},      // relative positions
      {"abc,cde->abde", {2, 3, 4}, {4, 5, 6}, {2, 3, 5, 6}},          // heads that are projected
      {"abcd,cde->abe", {2, 3, 4, 5}, {4, 5, 6}, {2, 3, 6}},          // and brought back together
      {"nkctv,kvw->nctw", {2, 3, 4, 5, 6}, {3, 6, 7}, {2, 4, 5, 7}},  // graphs over time
      {"ij,j->i", {3, 4}, {4}, {3}},                                  // a vector
      {"j,jk->k", {4}, {4, 3}, {3}},
      {"...qc,...kc->...qk", {2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 5, 6}},  // whatever lies around
      {"...c,cd->...d", {2, 3, 4}, {4, 5}, {2, 3, 5}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    Equation b(c.equation, c.a, c.b, c.y);
    const Graph before = clone(b.g);
    apply_match(b.g, einsum_groups(b.g, b["y"]));
    EXPECT_EQ(count(b.g, "Einsum"), 0u);
    EXPECT_EQ(count(b.g, "MatMul"), 1u);
    expect_same_outputs(before, b.g);
  }
}

TEST(EinsumGroups, of_extents_that_are_not_known) {
  const auto why = [](const std::string& equation, SymShape a, SymShape b, SymShape y) {
    const Equation e(equation, std::move(a), std::move(b), std::move(y));
    return verdict(e, einsum_groups, "y");
  };
  const Dim n("n"), m("m");
  EXPECT_EQ(why("bqc,bchw->bqhw", {n, m, 4}, {n, 4, 3, 6}, {n, m, 3, 6}), "matched");
  EXPECT_EQ(why("bqc,bchw->bqhw", {n, 5, 4}, {n, 4, m, 6}, {n, 5, m, 6}), "matched");
  EXPECT_EQ(why("bqc,bchw->bqhw", {n, 5, 4}, {n, 4, m, Dim("l")}, {n, 5, m, Dim("l")}), "unknown_shape by y");
  EXPECT_EQ(why("bqc,bchw->bqhw", {n, 5, 4}, {m, 4, 3, 6}, {n, 5, 3, 6}), "unknown_shape by y");
  EXPECT_EQ(why("i,j->ij", {3}, {4}, {3, 4}), "not here");                  // nothing is summed
  EXPECT_EQ(why("bij,bij->b", {2, 3, 4}, {2, 3, 4}, {2}), "not here");      // rows and columns are none
  EXPECT_EQ(why("ijl,jk->ik", {2, 3, 5}, {3, 4}, {2, 4}), "not here");      // one is summed alone
  EXPECT_EQ(why("bii,bij->bj", {2, 3, 3}, {2, 3, 4}, {2, 4}), "not here");  // a diagonal
}

ValueId swapped(Builder& b, const std::string& n, ValueId x, SymShape s) {
  return b.node(n, "Transpose", {x}, std::move(s), DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

TEST(TransposedProduct, is_the_product_of_the_factors_exchanged) {
  for (const bool second : {true, false}) {
    Builder b;
    const ValueId x = b.input("x", second ? SymShape{2, 3, 4} : SymShape{2, 4, 5}),
                  z = b.input("z", second ? SymShape{2, 5, 4} : SymShape{2, 4, 3});
    const ValueId p = second ? b.node("p", "MatMul", {x, swapped(b, "t", z, {2, 4, 5})}, {2, 3, 5})
                             : b.node("p", "MatMul", {swapped(b, "t", z, {2, 3, 4}), x}, {2, 3, 5});
    b.output(swapped(b, "y", p, {2, 5, 3}));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"dead_code", "transposed_product"}), "transposed_product"), 1u);
    EXPECT_EQ(count(b.g, "Transpose"), 1u);
  }
}

TEST(TransposedProduct, stays_where_the_product_is_read_again_or_no_factor_is_turned) {
  Builder b;
  const ValueId p =
      b.node("p", "MatMul", {b.input("x", {2, 3, 4}), swapped(b, "t", b.input("z", {2, 5, 4}), {2, 4, 5})}, {2, 3, 5});
  b.output(swapped(b, "y", p, {2, 5, 3}));
  b.output(b.node("n", "Neg", {p}, {2, 3, 5}));
  EXPECT_EQ(verdict(b, transposed_product, "y").substr(0, 12), "extra_reader");
  Builder c;
  const ValueId q = c.node("p", "MatMul", {c.input("x", {2, 3, 4}), c.input("z", {2, 4, 5})}, {2, 3, 5});
  c.output(swapped(c, "y", q, {2, 5, 3}));
  EXPECT_EQ(verdict(c, transposed_product, "y"), "not here");
}

TEST(TransposedProduct, takes_the_order_into_any_transpose_of_a_factor) {
  Builder b;
  const ValueId turned =
      b.node("t", "Transpose", {b.input("z", {4, 2, 5})}, {2, 4, 5}, DType::f32, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  b.output(swapped(b, "y", b.node("p", "MatMul", {b.input("x", {2, 3, 4}), turned}, {2, 3, 5}), {2, 5, 3}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"dead_code", "transposed_product"}), "transposed_product"), 1u);
  EXPECT_EQ(count(b.g, "Transpose"), 2u);
}

TEST(TransposedProduct, leaves_a_transpose_to_the_softmax_behind_it) {
  Builder b;
  const ValueId p =
      b.node("p", "MatMul", {b.input("x", {2, 3, 4}), swapped(b, "t", b.input("z", {2, 5, 4}), {2, 4, 5})}, {2, 3, 5});
  b.output(b.node("s", "Softmax", {swapped(b, "y", p, {2, 5, 3})}, {2, 5, 3}, DType::f32, {{"axis", int64_t{1}}}));
  EXPECT_EQ(verdict(b, transposed_product, "y"), "wrong_reader by s");
}

TEST(TransposedProduct, needs_factors_of_the_results_rank) {
  Builder b;
  const ValueId turned =
      b.node("t", "Transpose", {b.input("z", {5, 4})}, {4, 5}, DType::f32, {{"perm", std::vector<int64_t>{1, 0}}});
  b.output(swapped(b, "y", b.node("p", "MatMul", {b.input("x", {2, 3, 4}), turned}, {2, 3, 5}), {2, 5, 3}));
  EXPECT_EQ(verdict(b, transposed_product, "y"), "wrong_rank by p");
}

struct Sum : Builder {
  ValueId sum;
  explicit Sum(std::vector<int64_t> axes = {1, 2}, SymShape shape = {2, 3, 4}, SymShape reduced = {2, 1, 1}) {
    sum = node("sum", "ReduceSum", {input("x", std::move(shape)), ints(axes)}, reduced);
    made = std::move(reduced);
  }
  void times(const std::string& op, double number) { output(node("y", op, {sum, scalar(number)}, made)); }
  SymShape made;
};

TEST(SumAsMean, takes_the_quotient_and_the_product) {
  Sum b;
  b.times("Div", 12);
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"sum_as_mean"}), "sum_as_mean"), 1u);
  EXPECT_EQ(count(b.g, "ReduceMean"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
  Sum c({-1}, {2, 3, 4}, {2, 3, 1});
  c.times("Mul", 0.25);
  EXPECT_EQ(matches(rewrite_and_compare(c.g, {"sum_as_mean"}), "sum_as_mean"), 1u);
}

TEST(SumAsMean, needs_the_number_of_the_elements) {
  Sum b;
  b.times("Div", 11);
  EXPECT_EQ(verdict(b, sum_as_mean, "y"), "not here");
  Sum c({1, 2}, {2, Dim("n"), 4});
  c.times("Div", 12);
  EXPECT_EQ(verdict(c, sum_as_mean, "y"), "not here");
}

TEST(SumAsMean, stays_apart_when_the_sum_is_read_again) {
  Sum b;
  b.times("Div", 12);
  b.output(b.sum);
  EXPECT_EQ(verdict(b, sum_as_mean, "y"), "graph_output by sum");
}

}  // namespace
}  // namespace smelt::fuse
