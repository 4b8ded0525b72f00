// RMSNorm and LayerNorm recognised from their parts.
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// Writes a normalisation over the last axis of x the way exporters do.
struct NormParts : Builder {
  DType type;
  SymShape shape, reduced;
  ValueId x;
  explicit NormParts(DType t = DType::f32, SymShape s = {2, 3, 8}) : type(t), shape(std::move(s)), reduced(shape) {
    reduced.back() = 1;
    x = input("x", shape, t);
  }
  ValueId full(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), shape, type);
  }
  ValueId small(const std::string& n, const std::string& op, std::vector<ValueId> in) {
    return node(n, op, std::move(in), reduced, type);
  }
  ValueId number(double v) { return scalar(v, type); }
  ValueId mean(const std::string& n, ValueId v, std::vector<int64_t> axes = {-1}, int64_t keep = 1) {
    return node(n, "ReduceMean", {v, ints(axes)}, reduced, type, {{"keepdims", keep}});
  }
  ValueId root(ValueId variance, double eps = 0x1p-10) {
    return small("sqrt", "Sqrt", {small("eps", "Add", {variance, number(eps)})});
  }
  ValueId rms(ValueId v) {
    return full("n", "Mul", {v, small("r", "Reciprocal", {root(mean("mean", full("sq", "Pow", {v, number(2)})))})});
  }
  ValueId gamma() { return weights("gamma", {8}, type, 1); }
};

TEST(RecogniseRmsNorm, takes_the_exporters_spelling_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    NormParts b(t);
    b.output(b.full("y", "Mul", {b.rms(b.x), b.gamma()}));
    Ledger ledger = rewrite_and_compare(b.g, {"recognise_rms_norm"});
    EXPECT_EQ(matches(ledger, "recognise_rms_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    const Node& n = only(b.g, "Norm");
    EXPECT_EQ(n.get_string("kind", ""), "rms");
    EXPECT_EQ(n.get_int("axis", 0), -1);
  }
}

TEST(RecogniseRmsNorm, takes_the_other_spellings) {
  for (int spelling = 0; spelling < 4; ++spelling) {
    SCOPED_TRACE(spelling);
    NormParts b;
    ValueId variance = b.mean("mean", b.full("sq", "Mul", {b.x, b.x}), {2});
    if (spelling == 0) b.output(b.full("y", "Div", {b.x, b.root(variance)}));
    if (spelling == 1) b.output(b.full("y", "Mul", {b.small("inv", "Div", {b.number(1), b.root(variance)}), b.x}));
    if (spelling >= 2) {
      ValueId eps = b.small("eps", "Add", {b.number(0x1p-10), variance});
      ValueId power = b.small("pow", "Pow", {eps, b.number(spelling == 2 ? -0.5 : 0.5)});
      b.output(b.full("y", spelling == 2 ? "Mul" : "Div", {b.x, power}));
    }
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_rms_norm"}), "recognise_rms_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
  }
}

TEST(RecogniseRmsNorm, takes_casts_to_f32_and_back_and_gamma_on_either_side) {
  for (bool gamma_before_cast : {false, true}) {
    NormParts b;  // builds in f32; x comes from f16
    ValueId half = b.input("half", b.shape, DType::f16);
    ValueId wide = b.node("up", "Cast", {half}, b.shape, DType::f32, {{"to", int64_t{1}}});
    ValueId n = b.rms(wide);
    if (gamma_before_cast) n = b.full("scaled", "Mul", {n, b.gamma()});
    ValueId y = b.node("down", "Cast", {n}, b.shape, DType::f16, {{"to", int64_t{10}}});
    if (!gamma_before_cast) y = b.node("scaled", "Mul", {y, b.weights("g16", {8}, DType::f16, 1)}, b.shape, DType::f16);
    b.output(y);
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_rms_norm"}), "recognise_rms_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Norm").in(0), half);
  }
}

TEST(RecogniseRmsNorm, reads_the_wide_value_when_the_cast_has_other_readers) {
  NormParts b;
  ValueId half = b.input("half", b.shape, DType::f16);
  ValueId wide = b.node("up", "Cast", {half}, b.shape, DType::f32, {{"to", int64_t{1}}});
  b.output(b.rms(wide));
  b.output(b.full("other", "Neg", {wide}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_rms_norm"}), "recognise_rms_norm"), 1u);
  EXPECT_EQ(only(b.g, "Norm").in(0), wide);
}

TEST(RecogniseRmsNorm, works_over_symbolic_shapes) {
  NormParts b(DType::f32, {Dim("batch"), Dim("seq"), 8});
  b.output(b.full("y", "Mul", {b.rms(b.x), b.gamma()}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_rms_norm"}, {{"batch", 2}, {"seq", 5}}), "recognise_rms_norm"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(RecogniseRmsNorm, leaves_a_scale_that_enlarges_the_result_outside) {
  NormParts b;
  ValueId wide = b.input("w", {4, 1, 1, 8});
  b.output(b.node("y", "Mul", {b.rms(b.x), wide}, {4, 2, 3, 8}));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_rms_norm"}), "recognise_rms_norm"), 1u);
  EXPECT_EQ(count(b.g, "Mul"), 1u);
}

TEST(RecogniseRmsNorm, stays_apart_when_the_mean_is_over_another_axis) {
  NormParts b;
  b.reduced = {2, 1, 8};
  ValueId r = b.small("r", "Reciprocal", {b.root(b.mean("mean", b.full("sq", "Mul", {b.x, b.x}), {1}))});
  b.output(b.full("y", "Mul", {b.x, r}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "wrong_axis");
}

TEST(RecogniseRmsNorm, stays_apart_when_the_axis_is_not_kept) {
  NormParts b;
  b.reduced = {2, 3};
  ValueId r = b.small("r", "Reciprocal", {b.root(b.mean("mean", b.full("sq", "Mul", {b.x, b.x}), {-1}, 0))});
  b.output(b.full("y", "Mul", {b.x, b.node("u", "Unsqueeze", {r, b.ints({2})}, {2, 3, 1})}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "wrong_attribute");
}

TEST(RecogniseRmsNorm, stays_apart_when_epsilon_is_computed) {
  NormParts b;
  ValueId eps = b.input("eps", {1});
  ValueId sum = b.small("eps_add", "Add", {b.mean("mean", b.full("sq", "Mul", {b.x, b.x})), eps});
  b.output(b.full("y", "Div", {b.x, b.small("sqrt", "Sqrt", {sum})}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "not_constant");
}

TEST(RecogniseRmsNorm, stays_apart_when_the_quotient_is_of_another_value) {
  NormParts b;
  ValueId z = b.input("z", b.shape);
  b.output(b.full("y", "Div", {z, b.root(b.mean("mean", b.full("sq", "Mul", {b.x, b.x})))}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "wrong_reader");
}

TEST(RecogniseRmsNorm, stays_apart_when_a_value_inside_has_another_reader) {
  NormParts b;
  ValueId root = b.root(b.mean("mean", b.full("sq", "Mul", {b.x, b.x})));
  b.output(b.full("y", "Div", {b.x, root}));
  b.output(b.small("other", "Neg", {root}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "extra_reader");
}

TEST(RecogniseRmsNorm, stays_apart_when_a_value_inside_is_a_graph_output) {
  NormParts b;
  ValueId root = b.root(b.mean("mean", b.full("sq", "Mul", {b.x, b.x})));
  b.output(b.full("y", "Div", {b.x, root}));
  b.output(root);
  EXPECT_EQ(rejection(run_only(b.g, "recognise_rms_norm"), "recognise_rms_norm"), "graph_output");
}

struct LayerParts : NormParts {
  using NormParts::NormParts;
  ValueId centred(const std::string& n, std::vector<int64_t> axes = {-1}) {
    return full(n, "Sub", {x, mean(n + "_mean", x, axes)});
  }
  ValueId quotient(ValueId numerator, ValueId d) {
    return full("q", "Div", {numerator, root(mean("var", full("sq", "Pow", {d, number(2)})))});
  }
};

TEST(RecogniseLayerNorm, takes_gamma_and_beta_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    LayerParts b(t);
    ValueId d = b.centred("d");
    ValueId scaled = b.full("scaled", "Mul", {b.gamma(), b.quotient(d, d)});
    b.output(b.full("y", "Add", {scaled, b.weights("beta", {8}, t, 1)}));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_layer_norm"}), "recognise_layer_norm"), 1u);
    EXPECT_EQ(b.g.live_nodes(), 1u);
    EXPECT_EQ(only(b.g, "Norm").get_string("kind", ""), "layer");
  }
}

TEST(RecogniseLayerNorm, takes_a_difference_that_is_computed_twice) {
  LayerParts b;
  b.output(b.quotient(b.centred("d1"), b.centred("d2")));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_layer_norm"}), "recognise_layer_norm"), 1u);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(RecogniseLayerNorm, stays_apart_when_the_two_means_are_over_different_axes) {
  LayerParts b;
  b.reduced = {2, 3, 1};
  ValueId d = b.full("d", "Sub", {b.x, b.node("m", "ReduceMean", {b.x, b.ints({1, 2})}, {2, 1, 1})});
  b.output(b.quotient(d, d));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_layer_norm"), "recognise_layer_norm"), "wrong_axis");
}

TEST(RecogniseLayerNorm, stays_apart_when_the_quotient_is_of_x_itself) {
  LayerParts b;
  b.output(b.quotient(b.x, b.centred("d")));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_layer_norm"), "recognise_layer_norm"), "wrong_reader");
}

TEST(RecogniseLayerNorm, stays_apart_when_a_value_inside_has_another_reader) {
  LayerParts b;
  ValueId d = b.centred("d");
  b.output(b.quotient(d, d));
  b.output(b.full("other", "Neg", {d}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_layer_norm"), "recognise_layer_norm"), "extra_reader");
}

/// The variance as mean(x^2) - mean(x)^2, cut off at 0; then (x - mean) * s + beta, or x * s + (beta - mean * s), with gamma in s.
struct SpreadOut : NormParts {
  ValueId m, s;
  explicit SpreadOut(bool of_means) {
    m = mean("m", x);
    ValueId variance;
    if (of_means) {
      const ValueId apart = small("apart", "Sub", {mean("m2", full("sq", "Mul", {x, x})), small("mm", "Mul", {m, m})});
      variance = small("cut", "Max", {apart, number(0)});
    } else {
      const ValueId c = full("c", "Sub", {x, m});
      variance = mean("var", full("sq", "Mul", {c, c}));
    }
    s = full("s", "Mul", {small("r", "Reciprocal", {root(variance)}), gamma()});
  }
  ValueId beta() { return weights("beta", {8}, type, 1); }
  void spread(ValueId beta) {
    output(full("y", "Add", {full("xs", "Mul", {x, s}), full("d", "Sub", {beta, full("ms", "Mul", {m, s})})}));
  }
  void expect_norm() {
    EXPECT_EQ(matches(rewrite_and_compare(g, {"recognise_layer_norm"}), "recognise_layer_norm"), 1u);
    EXPECT_EQ(g.live_nodes(), 1u);
  }
};

TEST(RecogniseLayerNorm, takes_gamma_in_the_root_and_the_mean_taken_off_at_the_end) {
  for (const bool of_means : {true, false}) {
    SpreadOut b(of_means);
    b.spread(b.beta());
    b.expect_norm();
  }
}

TEST(RecogniseLayerNorm, takes_the_variance_as_the_difference_of_two_means) {
  SpreadOut b(true);
  b.output(b.full("y", "Add", {b.full("n", "Mul", {b.full("c", "Sub", {b.x, b.m}), b.s}), b.beta()}));
  b.expect_norm();
}

TEST(RecogniseLayerNorm, needs_both_products_to_be_of_x_and_its_mean) {
  SpreadOut b(false);
  const ValueId other = b.input("other", b.reduced);
  b.output(
      b.full("y", "Add", {b.full("xs", "Mul", {b.x, b.s}), b.full("d", "Sub", {b.beta(), b.full("ms", "Mul", {other, b.s})})}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_layer_norm"), "recognise_layer_norm"), "wrong_reader");
}

}  // namespace
}  // namespace smelt::fuse
