#include <gmock/gmock.h>

#include "fuse/rewrites/canonicalise/folding.h"
#include "fuse/rewrites/rewrites.h"
#include "smelt/error.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

using testing::ElementsAre;

const SymShape shape{2, 3};

TEST(FoldConstants, computes_a_node_of_constants) {
  Builder b;
  const ValueId x = b.input("x", shape);
  const ValueId sum = b.node("sum", "Add", {b.scalar(2), b.scalar(3)}, {});
  b.output(b.node("y", "Mul", {x, sum}, shape));
  apply_match(b, fold_constants, "sum");
  EXPECT_EQ(b.g.constant(b["y"], 1).to_doubles()[0], 5);
}

TEST(FoldConstants, keeps_the_name_of_a_graph_output) {
  Builder b;
  const ValueId y = b.node("y", "Add", {b.scalar(2), b.scalar(3)}, {});
  b.output(y);
  apply_match(b, fold_constants, "y");
  EXPECT_EQ(b.g.value(b.g.outputs()[0]).name, "y_out");
  EXPECT_TRUE(b.g.value(y).is_constant());
}

TEST(FoldConstants, knows_the_shape_of_a_computed_value) {
  Builder b;
  const ValueId x = b.input("x", shape);
  b.output(b.node("s", "Shape", {x}, {2}, DType::i64));
  apply_match(b, fold_constants, "s");
  EXPECT_THAT(b.g.value(b.g.outputs()[0]).constant.to_ints(), ElementsAre(2, 3));
}

TEST(FoldConstants, knows_one_extent_of_a_partly_symbolic_shape) {
  Builder b;
  const ValueId x = b.input("x", {Dim("batch"), 3});
  const ValueId s = b.node("s", "Shape", {x}, {2}, DType::i64);
  const ValueId last = b.node("last", "Gather", {s, b.ints({1})}, {1}, DType::i64);
  const ValueId first = b.node("first", "Gather", {s, b.ints({0})}, {1}, DType::i64);
  b.output(last);
  b.output(first);
  EXPECT_EQ(verdict(b, fold_constants, "s"), "not here");
  EXPECT_EQ(verdict(b, fold_constants, "first"), "not here");
  EXPECT_EQ(verdict(b, fold_constants, "last"), "matched");
}

TEST(FoldConstants, leaves_computed_inputs_alone) {
  Builder b;
  const ValueId x = b.input("x", shape);
  b.output(b.node("y", "Add", {x, b.scalar(3)}, shape));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "not here");
}

TEST(FoldConstants, does_not_blow_up) {
  Builder b;
  b.output(b.node("y", "Expand", {b.scalar(1), b.ints({1 << 12, 1 << 12})}, {1 << 12, 1 << 12}));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "too_large by y");
}

TEST(FoldConstants, computes_the_same_elements_in_a_wider_type) {
  Builder b;
  constexpr int64_t extent = 3 << 20;  // 12 MiB in f32
  const ValueId half = b.weights("half", {extent}, DType::f16), byte = b.weights("byte", {4, extent}, DType::i8);
  b.output(b.node("from_16", "Cast", {half}, {extent}, DType::f32, {{"to", int64_t{1}}}));
  b.output(b.node("from_8", "Cast", {byte}, {4, extent}, DType::f32, {{"to", int64_t{1}}}));
  b.output(b.node("more", "Add", {b.weights("row", {1, extent}), b.weights("column", {4, 1})}, {4, extent}));
  EXPECT_EQ(verdict(b, fold_constants, "from_16"), "matched");
  EXPECT_EQ(verdict(b, fold_constants, "from_8"), "matched");
  EXPECT_EQ(verdict(b, fold_constants, "more"), "too_large by more");
}

TEST(FoldConstants, many_results_do_not_blow_up_together) {
  Builder b;
  constexpr int64_t extent = 1 << 21;  // 8 MiB each; without more than 64 of them, of 100
  const ValueId size = b.ints({extent});
  for (int i = 0; i < 100; ++i) b.output(b.node("y" + std::to_string(i), "ConstantOfShape", {size}, {extent}));
  const ValueId three = b.node("small", "ConstantOfShape", {b.ints({3})}, {3});
  b.output(three);
  const Ledger ledger = run_only(b.g, "fold_constants");
  const auto matched = std::ranges::count_if(ledger, &Entry::matched);
  EXPECT_EQ(matched, 64 + 1) << "and what is small, always";
  for (const Entry& e : ledger)
    if (!e.matched) {
      EXPECT_EQ(e.reason, "too_large");
    }
}

TEST(FoldConstants, results_in_place_of_their_inputs_are_not_counted) {
  Builder b;
  for (int i = 0; i < 3; ++i)
    b.output(b.node("y" + std::to_string(i), "Neg", {b.weights("w" + std::to_string(i), {256, 256})}, {256, 256}));
  const ValueId w = b.weights("w", {256, 256});
  for (int i = 0; i < 3; ++i) b.output(b.node("z" + std::to_string(i), "Neg", {w}, {256, 256}));
  const FoldingScope folding;
  for (int i = 0; i < 3; ++i) apply_match(b, fold_constants, "y" + std::to_string(i));
  EXPECT_EQ(folding.bytes, 0);
  for (int i = 0; i < 3; ++i) apply_match(b, fold_constants, "z" + std::to_string(i));
  EXPECT_EQ(folding.bytes, int64_t{2} * 4 * 256 * 256) << "the last takes the place of the weights that all read";
}

TEST(FoldConstants, does_not_multiply_large_matrices) {
  Builder b;
  const ValueId w = b.weights("w", {1024, 1024});
  b.output(b.node("y", "MatMul", {w, w}, {1024, 1024}));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "too_large by y");
}

TEST(FoldConstants, leaves_dequantized_weights_to_the_int8_operators) {
  Builder b;
  b.output(b.node("y", "DequantizeLinear", {b.weights("w", {4}, DType::i8, 10), b.scalar(0.5)}, {4}));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "not here");
}

TEST(FoldConstants, never_folds_random_numbers) {
  Builder b;
  b.output(b.node("y", "RandomNormalLike", {b.scalar(1)}, {}));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "not here");
}

TEST(FoldConstants, says_what_is_wrong_with_an_impossible_node) {
  Builder b;
  b.output(b.node("y", "Add", {b.weights("v", {2}), b.weights("w", {3})}, {3}));
  EXPECT_EQ(verdict(b, fold_constants, "y"), "unsupported by y");
}

/// x → op(x, more…) → Relu; the verdict on op.
std::string identity(const std::string& op, const std::vector<Tensor>& more, std::map<std::string, Attribute> attrs = {},
                     SymShape to = shape) {
  Builder b;
  std::vector<ValueId> inputs{b.input("x", shape)};
  for (const Tensor& t : more) inputs.push_back(t.valid() ? b.constant("", t) : ValueId::none);
  b.output(b.node("z", "Relu", {b.node("y", op, inputs, to, DType::f32, std::move(attrs))}, to));
  return verdict(b, remove_identity, "y");
}

Tensor vec(std::vector<int64_t> v) { return Tensor::of({static_cast<int64_t>(v.size())}, v); }
Tensor num(float v) { return Tensor::scalar(v); }

TEST(RemoveIdentity, takes_out_what_returns_its_input) {
  EXPECT_EQ(identity("Identity", {}), "matched");
  EXPECT_EQ(identity("Dropout", {}), "matched");
  EXPECT_EQ(identity("Dropout", {num(0.5f), Tensor::scalar(false)}), "matched");
  EXPECT_EQ(identity("Cast", {}, {{"to", int64_t{1}}}), "matched");
  EXPECT_EQ(identity("Reshape", {vec({2, -1})}), "matched");
  EXPECT_EQ(identity("Transpose", {}, {{"perm", std::vector<int64_t>{0, 1}}}), "matched");
  EXPECT_EQ(identity("Pad", {vec({0, 0, 0, 0})}), "matched");
  EXPECT_EQ(identity("Slice", {vec({0}), vec({INT64_MAX}), vec({1}), vec({1})}), "matched");
  EXPECT_EQ(identity("Concat", {}, {{"axis", int64_t{0}}}), "matched");
  EXPECT_EQ(identity("Expand", {vec({1, 3})}), "matched");
  EXPECT_EQ(identity("Sum", {}), "matched");
  EXPECT_EQ(identity("Add", {num(0)}), "matched");
  EXPECT_EQ(identity("Sub", {num(0)}), "matched");
  EXPECT_EQ(identity("Mul", {Tensor::of<float>({1, 1}, {1})}), "matched");
  EXPECT_EQ(identity("Div", {num(1)}), "matched");
  EXPECT_EQ(identity("Pow", {num(1)}), "matched");
  // By 1 no extent changes, known or not.
  EXPECT_EQ(identity("Resize", {Tensor(), Tensor::of<float>({2}, {1, 1})}, {}, {Dim{}, Dim{}}), "matched");
}

TEST(RemoveIdentity, keeps_what_changes_something) {
  EXPECT_EQ(identity("Dropout", {num(0.5f), Tensor::scalar(true)}), "not here");
  EXPECT_EQ(identity("Reshape", {vec({3, 2})}, {}, {3, 2}), "not here");
  EXPECT_EQ(identity("Transpose", {}, {{"perm", std::vector<int64_t>{1, 0}}}, {3, 2}), "not here");
  EXPECT_EQ(identity("Transpose", {}, {}, {3, 2}), "not here");
  EXPECT_EQ(identity("Slice", {vec({-1}), vec({INT64_MIN}), vec({1}), vec({-1})}), "not here");
  EXPECT_EQ(identity("Sum", {num(0)}), "not here");
  EXPECT_EQ(identity("Resize", {Tensor(), Tensor::of<float>({2}, {1, 2})}, {}, {2, 6}), "not here");
  EXPECT_EQ(identity("Add", {num(0.5f)}), "not here");
  EXPECT_EQ(identity("Mul", {Tensor::of<float>({1}, {2})}), "not here");
  EXPECT_EQ(identity("Relu", {}), "not here");
}

// Missing weights read as zeros: what is a weight must not decide.
TEST(RemoveIdentity, keeps_vectors_of_neutral_elements) {
  EXPECT_EQ(identity("Add", {Tensor::zeros(DType::f32, {3})}), "not here");
  EXPECT_EQ(identity("Mul", {Tensor::of<float>({3}, {1, 1, 1})}), "not here");
}

TEST(RemoveIdentity, keeps_a_constant_that_enlarges_the_result) {
  EXPECT_EQ(identity("Add", {Tensor::zeros(DType::f32, {1, 1, 1})}, {}, {1, 2, 3}), "wrong_shape by y");
}

TEST(RemoveIdentity, keeps_an_identity_whose_parameter_is_computed) {
  Builder b;
  const ValueId x = b.input("x", shape), training = b.input("t", {}, DType::boolean);
  b.output(b.node("y", "Dropout", {x, b.scalar(0.5), training}, shape));
  EXPECT_EQ(verdict(b, remove_identity, "y"), "not_constant");
}

TEST(RemoveIdentity, keeps_one_that_joins_an_input_and_an_output_of_the_graph) {
  Builder b;
  const ValueId x = b.input("x", shape);
  b.output(b.node("y", "Identity", {x}, shape));
  EXPECT_EQ(verdict(b, remove_identity, "y"), "graph_output by y");
}

TEST(RemoveIdentity, keeps_one_between_two_outputs_of_the_graph) {
  Builder b;
  const ValueId x = b.input("x", shape), a = b.node("a", "Relu", {x}, shape);
  b.output(a);
  b.output(b.node("y", "Identity", {a}, shape));
  EXPECT_EQ(verdict(b, remove_identity, "y"), "graph_output by a");
}

TEST(RemoveIdentity, keeps_a_dropout_whose_mask_is_used) {
  Builder b;
  const ValueId x = b.input("x", shape), mask = b.g.add_value("mask", DType::boolean, shape);
  const ValueId y = b.g.add_value("y_out", DType::f32, shape);
  b.g.add_node({.op = "Dropout", .name = "y", .inputs = {x}, .outputs = {y, mask}});
  b.output(b.node("z", "Relu", {y}, shape));
  b.output(mask);
  EXPECT_EQ(verdict(b, remove_identity, "y"), "extra_reader by y");
}

TEST(RemoveIdentity, hands_the_outputs_name_on) {
  Builder b;
  const ValueId x = b.input("x", shape), a = b.node("a", "Relu", {x}, shape);
  b.output(b.node("y", "Identity", {a}, shape));
  apply_match(b, remove_identity, "y");
  EXPECT_EQ(b.g.outputs()[0], a);
  EXPECT_EQ(b.g.value(a).name, "y_out");
  EXPECT_THAT(b.g.node(b["a"]).sources, ElementsAre(0, 1));
}

std::string casts(DType from, DType between, DType to) {
  Builder b;
  const ValueId x = b.input("x", shape, from);
  const ValueId a = b.node("a", "Cast", {x}, shape, between);
  b.output(b.node("y", "Cast", {a}, shape, to));
  return verdict(b, merge_casts, "y");
}

TEST(MergeCasts, skips_a_type_that_holds_every_value) {
  EXPECT_EQ(casts(DType::f16, DType::f32, DType::f16), "matched");
  EXPECT_EQ(casts(DType::bf16, DType::f32, DType::f64), "matched");
  EXPECT_EQ(casts(DType::i8, DType::i32, DType::f32), "matched");
  EXPECT_EQ(casts(DType::boolean, DType::f16, DType::i64), "matched");
  EXPECT_EQ(casts(DType::u8, DType::i16, DType::f32), "matched");
}

TEST(MergeCasts, keeps_a_type_that_loses_something) {
  EXPECT_EQ(casts(DType::f32, DType::f16, DType::f32), "wrong_type by a");
  EXPECT_EQ(casts(DType::f16, DType::bf16, DType::f16), "wrong_type by a");
  EXPECT_EQ(casts(DType::f32, DType::i32, DType::f32), "wrong_type by a");
  EXPECT_EQ(casts(DType::i64, DType::f64, DType::i64), "wrong_type by a");
  EXPECT_EQ(casts(DType::i8, DType::u8, DType::i32), "wrong_type by a");
  EXPECT_EQ(casts(DType::i32, DType::f32, DType::i32), "wrong_type by a");
}

TEST(MergeTransposes, composes_the_orders) {
  Builder b;
  const ValueId x = b.input("x", {2, 3, 4});
  const ValueId a = b.node("a", "Transpose", {x}, {3, 4, 2}, DType::f32, {{"perm", std::vector<int64_t>{1, 2, 0}}});
  b.output(b.node("y", "Transpose", {a}, {2, 4, 3}));
  apply_match(b, merge_transposes, "y");
  EXPECT_THAT(b.g.node(b["y"]).get_ints("perm"), ElementsAre(0, 2, 1));
  EXPECT_EQ(b.g.node(b["y"]).in(0), x);
}

TEST(MergeTransposes, two_that_cancel_disappear) {
  Builder b;
  const ValueId x = b.input("x", {2, 3, 4}), r = b.node("r", "Relu", {x}, {2, 3, 4});
  const ValueId a = b.node("a", "Transpose", {r}, {3, 4, 2}, DType::f32, {{"perm", std::vector<int64_t>{1, 2, 0}}});
  b.output(b.node("y", "Transpose", {a}, {2, 3, 4}, DType::f32, {{"perm", std::vector<int64_t>{2, 0, 1}}}));
  const Rewrite list[] = {{"merge_transposes", merge_transposes}, {"remove_identity", remove_identity}, {"dead_code", dead_code}};
  run(b.g, list);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(MergeTransposes, stops_when_neither_order_nor_rank_is_known) {
  Builder b;
  const ValueId x = b.input("x", {2, 3});
  const ValueId a = b.node("a", "Transpose", {x}, {3, 2});
  b.output(b.node("y", "Transpose", {a}, {2, 3}));
  b.g.set_shape(x, std::nullopt);
  EXPECT_EQ(verdict(b, merge_transposes, "y"), "wrong_rank by a");
}

TEST(TransposeOfOnes, becomes_a_reshape) {
  Builder b;
  const ValueId x = b.input("x", {1, 5, 1, 4});
  b.output(b.node("y", "Transpose", {x}, {1, 1, 5, 4}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  apply_match(b, transpose_of_ones, "y");
  EXPECT_EQ(b.g.node(b["y"]).op, "Reshape");
  EXPECT_THAT(b.g.constant(b["y"], 1).to_ints(), ElementsAre(1, 1, 5, 4));
}

TEST(TransposeOfOnes, keeps_a_transpose_that_moves_elements) {
  Builder b;
  const ValueId x = b.input("x", {1, 5, 2, 4});
  b.output(b.node("y", "Transpose", {x}, {1, 2, 5, 4}, DType::f32, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  EXPECT_EQ(verdict(b, transpose_of_ones, "y"), "not here");
}

TEST(TransposeOfOnes, needs_to_know_all_extents_but_one) {
  Builder b;
  const ValueId x = b.input("x", {Dim("batch"), Dim("length"), 1, 4});
  b.output(b.node("y", "Transpose", {x}, {Dim("batch"), 1, Dim("length"), 4}, DType::f32,
                  {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}));
  EXPECT_EQ(verdict(b, transpose_of_ones, "y"), "unknown_shape by y");
}

TEST(MergeReshapes, makes_one_of_a_chain) {
  Builder b;
  const ValueId x = b.input("x", {2, 3, 4});
  const ValueId a = b.node("a", "Flatten", {x}, {2, 12});
  b.output(b.node("y", "Unsqueeze", {a, b.ints({0})}, {1, 2, 12}));
  apply_match(b, merge_reshapes, "y");
  EXPECT_EQ(b.g.node(b["y"]).op, "Reshape");
  EXPECT_EQ(b.g.node(b["y"]).in(0), x);
  EXPECT_THAT(b.g.constant(b["y"], 1).to_ints(), ElementsAre(1, 2, 12));
}

TEST(MergeReshapes, needs_to_know_all_extents_but_one) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n"), Dim("c"), 1, 1});
  const ValueId a = b.node("a", "Squeeze", {x, b.ints({3})}, {Dim("n"), Dim("c"), 1});
  b.output(b.node("y", "Squeeze", {a, b.ints({2})}, {Dim("n"), Dim("c")}));
  EXPECT_EQ(verdict(b, merge_reshapes, "y"), "unknown_shape by y");
}

}  // namespace
}  // namespace smelt::fuse
