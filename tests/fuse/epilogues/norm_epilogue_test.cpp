// Norm operators, the residual in front and the epilogue behind.
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

struct Norms : Builder {
  DType type;
  SymShape shape;
  ValueId x;
  explicit Norms(DType t = DType::f32, SymShape s = {2, 3, 8}) : type(t), shape(s), x(input("x", s, t)) {}
  ValueId at(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), shape, type);
  }
  ValueId gamma() { return weights("gamma", {8}, type, 1); }
  ValueId beta() { return weights("beta", {8}, type, 2); }
  ValueId layer(ValueId v, int64_t axis = -1) {
    return node("ln", "LayerNormalization", {v, gamma(), beta()}, shape, type, {{"axis", axis}, {"epsilon", 0x1p-10f}});
  }
};

TEST(NormOperator, takes_layer_normalization_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Norms b(t);
    b.output(b.layer(b.x, 2));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator"}), "norm_operator"), 1u);
    EXPECT_EQ(only(b.g, "Norm").get_int("axis", 0), -1);
  }
}

TEST(NormOperator, takes_rms_normalization) {
  Norms b;
  b.output(b.node("n", "RMSNormalization", {b.x, b.gamma()}, b.shape, b.type, {{"epsilon", 0x1p-10f}}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator"}), "norm_operator"), 1u);
}

TEST(NormOperator, takes_instance_normalization_over_any_number_of_axes) {
  Norms b(DType::f32, {2, 3, 4, 5});
  b.output(b.at("n", "InstanceNormalization", {b.x, b.weights("s", {3}, DType::f32, 1), b.weights("b", {3}, DType::f32, 1)}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator"}), "norm_operator"), 1u);
  EXPECT_EQ(only(b.g, "Norm").get_int("axis", 0), -2);
}

TEST(NormOperator, leaves_it_alone_when_the_mean_is_read) {
  Norms b;
  ValueId y = b.layer(b.x);
  const NodeId ln = b["ln"];
  ValueId mean = b.g.add_value("mean", DType::f32, SymShape{2, 3, 1});
  Node n = b.g.node(ln);
  b.g.remove_node(ln);
  n.outputs.push_back(mean);
  b.g.add_node(n);
  b.output(y);
  b.output(mean);
  EXPECT_EQ(rejection(run_only(b.g, "norm_operator"), "norm_operator"), "extra_reader");
}

TEST(NormOperator, leaves_a_front_axis_of_unknown_rank_alone) {
  Norms b;
  ValueId any = b.g.add_value("any", DType::f32, std::nullopt);
  b.g.add_input(any);
  b.output(b.layer(any, 2));
  EXPECT_EQ(rejection(run_only(b.g, "norm_operator"), "norm_operator"), "unknown_shape");
}

TEST(NormOperator, leaves_an_axis_alone_that_is_not_there) {
  for (int64_t axis : {3, 252, -4}) {
    Norms b;
    b.output(b.layer(b.x, axis));
    EXPECT_EQ(rejection(run_only(b.g, "norm_operator"), "norm_operator"), "wrong_axis") << axis;
  }
}

TEST(NormOperator, leaves_a_skip_with_a_bias_alone) {
  Norms b;
  ValueId skip = b.input("skip", b.shape);
  b.output(b.node("n", "SkipLayerNormalization", {b.x, skip, b.gamma(), b.beta(), b.weights("bias", {8})}, b.shape, b.type, {},
                  microsoft_domain));
  EXPECT_EQ(rejection(run_only(b.g, "norm_operator"), "norm_operator"), "unsupported");
}

TEST(NormOperator, takes_skip_layer_normalization_as_residual) {
  Norms b;
  ValueId skip = b.input("skip", b.shape);
  b.output(b.node("n", "SkipLayerNormalization", {b.x, skip, b.gamma(), b.beta()}, b.shape, b.type, {}, microsoft_domain));
  EXPECT_EQ(matches(run_only(b.g, "norm_operator"), "norm_operator"), 1u);
  EXPECT_EQ(only(b.g, "Norm").in(1), skip);
}

TEST(ResidualNorm, adds_inside_the_norm) {
  for (DType t : {DType::f32, DType::f16}) {
    Norms b(t);
    b.output(b.layer(b.at("sum", "Add", {b.x, b.input("r", b.shape, t)})));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "residual_norm"}), "residual_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Norm").outputs.size(), 1u);
  }
}

TEST(ResidualNorm, gives_the_sum_where_it_is_read_elsewhere) {
  Norms b;
  ValueId sum = b.at("sum", "Add", {b.x, b.input("r", b.shape)});
  b.output(b.at("next", "Relu", {b.layer(sum)}));
  b.output(b.at("z", "Neg", {sum}));
  b.output(sum);
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "residual_norm"}), "residual_norm"), 1u);
  EXPECT_EQ(only(b.g, "Norm").out(1), sum);
  EXPECT_EQ(count(b.g, "Add"), 0u);
}

TEST(ResidualNorm, leaves_a_shared_sum_to_the_product_before_it) {
  Norms b;
  ValueId mm = b.at("mm", "MatMul", {b.x, b.weights("w", {8, 8})});
  ValueId sum = b.at("sum", "Add", {b.at("bias", "Add", {mm, b.weights("b", {8})}), b.input("r", b.shape)});
  b.output(b.layer(sum));
  b.output(b.at("z", "Neg", {sum}));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "residual_norm"}), "residual_norm"), "not_profitable");
}

TEST(ResidualNorm, stays_apart_when_the_sum_broadcasts) {
  Norms b;
  b.output(b.layer(b.at("sum", "Add", {b.x, b.input("r", {1, 8})})));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "residual_norm"}), "residual_norm"), "wrong_shape");
}

TEST(ResidualNorm, stays_apart_when_it_may_broadcast) {
  Norms b(DType::f32, {Dim("a"), 3, 8});
  ValueId sum = b.node("sum", "Add", {b.x, b.input("r", {Dim("b"), 3, 8})}, {Dim(), 3, 8});
  b.output(b.layer(sum));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "residual_norm"}, {{"a", 1}, {"b", 4}}), "residual_norm"),
            "wrong_shape");
}

struct Modulated : Norms {
  ValueId scale, shift;
  explicit Modulated(DType t = DType::f32, SymShape s = {2, 3, 8})
      : Norms(t, s), scale(input("scale", {s[0], 1, 8}, t)), shift(input("shift", {s[0], 1, 8}, t)) {}
  ValueId one_plus() { return node("one_plus", "Add", {scale, scalar(1, type)}, {shape[0], 1, 8}, type); }
};

TEST(ModulatedNorm, takes_scale_and_shift_as_operands) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Modulated b(t);
    b.output(b.at("y", "Add", {b.at("m", "Mul", {b.layer(b.x), b.one_plus()}), b.shift}));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "modulated_norm"}), "modulated_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Norm").inputs.size(), 6u);
  }
}

TEST(ModulatedNorm, works_over_symbolic_shapes) {
  Modulated b(DType::f32, {Dim("batch"), Dim("seq"), 8});
  b.output(b.at("y", "Add", {b.at("m", "Mul", {b.layer(b.x), b.one_plus()}), b.shift}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "modulated_norm"}, {{"batch", 2}, {"seq", 4}}), "modulated_norm"),
            1u);
}

TEST(ModulatedNorm, stays_apart_when_the_shift_enlarges_the_result) {
  Modulated b;
  ValueId wide = b.input("wide", {5, 2, 3, 8});
  b.output(b.node("y", "Add", {b.at("m", "Mul", {b.layer(b.x), b.one_plus()}), wide}, {5, 2, 3, 8}));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "modulated_norm"}), "modulated_norm"), "wrong_shape");
}

TEST(NormEpilogue, takes_an_activation) {
  Norms b;
  b.output(b.at("y", "Gelu", {b.layer(b.x)}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "norm_epilogue"}), "norm_epilogue"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(NormEpilogue, takes_a_quantization) {
  for (const DType t : {DType::f32, DType::f16}) {
    Norms b(t);
    const ValueId scale = b.weights("scale", {}, t, 1);
    b.output(b.node("q", "QuantizeLinear", {b.layer(b.x), scale, b.scalar(7, DType::u8)}, b.shape, DType::u8));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"norm_operator", "norm_epilogue"}), "norm_epilogue"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(b.g.value(only(b.g, "Norm").out()).type, DType::u8);
  }
}

TEST(NormEpilogue, stays_apart_when_the_norm_has_another_reader) {
  Norms b;
  ValueId n = b.layer(b.x);
  b.output(b.at("y", "Gelu", {n}));
  b.output(b.at("z", "Softmax", {n}));
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "norm_epilogue"}), "norm_epilogue"), "extra_reader");
}

TEST(NormEpilogue, stays_apart_when_the_norm_is_a_graph_output) {
  Norms b;
  ValueId n = b.layer(b.x);
  b.output(b.at("y", "Gelu", {n}));
  b.output(n);
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"norm_operator", "norm_epilogue"}), "norm_epilogue"), "graph_output");
}

struct Groups : Builder {
  SymShape shape;
  ValueId x;
  explicit Groups(SymShape s = {2, 6, 3, 4}) : shape(s), x(input("x", s)) {}
  ValueId instance(ValueId v, ValueId scale) {
    ValueId grouped = node("before", "Reshape", {v, ints({0, 2, -1})}, {shape[0], 2, shape[2].known() ? Dim(36) : Dim()});
    ValueId n = node("in", "InstanceNormalization", {grouped, scale, weights("b", {2}, DType::f32, 1)}, *g.value(grouped).shape);
    return node("after", "Reshape", {n, node("shape", "Shape", {v}, {4}, DType::i64)}, shape);
  }
  ValueId scale() { return weights("s", {2}, DType::f32, 1); }
  ValueId channels(const std::string& n) { return weights(n, {6, 1, 1}, DType::f32, 1); }
};

TEST(RecogniseGroupNorm, takes_scale_shift_and_activation_of_the_channels) {
  for (SymShape s : {SymShape{2, 6, 3, 4}, SymShape{Dim("batch"), 6, Dim("h"), Dim("w")}}) {
    SCOPED_TRACE(to_string(s));
    Groups b(s);
    ValueId n = b.instance(b.x, b.scale());
    ValueId affine = b.node("add", "Add", {b.node("mul", "Mul", {n, b.channels("c1")}, s), b.channels("c2")}, s);
    b.output(b.node("y", "Sigmoid", {affine}, s));
    Ledger ledger = rewrite_and_compare(b.g, {"recognise_group_norm"}, {{"batch", 2}, {"h", 3}, {"w", 4}});
    EXPECT_EQ(matches(ledger, "recognise_group_norm"), 1u);
    EXPECT_EQ(only(b.g, "Norm").inputs.size(), 6u);
    EXPECT_EQ(count(b.g, "Sigmoid") + count(b.g, "Add") + count(b.g, "Mul"), 0u);
  }
}

TEST(RecogniseGroupNorm, leaves_out_scales_of_one_and_offsets_of_zero) {
  Groups b;
  b.output(b.instance(b.x, b.g.add_constant("one", Tensor::of<float>({2}, {1, 1}))));
  b.g.set_input(b["in"], 2, b.g.add_constant("zero", Tensor::zeros(DType::f32, {2})));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_group_norm"}), "recognise_group_norm"), 1u);
  const Node& norm = only(b.g, "Norm");
  EXPECT_EQ(norm.in(2), ValueId::none);
  EXPECT_EQ(norm.in(3), ValueId::none);
}

TEST(RecogniseGroupNorm, leaves_what_is_not_of_the_channels_outside) {
  Groups b;
  b.output(b.node("y", "Add", {b.instance(b.x, b.scale()), b.input("z", b.shape)}, b.shape));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_group_norm"}), "recognise_group_norm"), 1u);
  EXPECT_EQ(count(b.g, "Add"), 1u);
}

TEST(RecogniseGroupNorm, stays_apart_when_the_scale_is_computed) {
  Groups b;
  b.output(b.instance(b.x, b.input("s", {2})));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_group_norm"), "recognise_group_norm"), "not_constant");
}

TEST(RecogniseGroupNorm, stays_apart_when_the_channels_are_not_known) {
  Groups b({2, Dim("c"), 3, 4});
  b.output(b.instance(b.x, b.scale()));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_group_norm"), "recognise_group_norm"), "unknown_shape");
}

TEST(RecogniseGroupNorm, stays_apart_when_the_normalised_groups_are_read) {
  Groups b;
  b.output(b.instance(b.x, b.scale()));
  b.output(b.g.node(b["in"]).out());
  EXPECT_EQ(rejection(run_only(b.g, "recognise_group_norm"), "recognise_group_norm"), "graph_output");
}

}  // namespace
}  // namespace smelt::fuse
