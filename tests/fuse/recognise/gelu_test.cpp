#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape shape{3, 5};

struct Gelu : Builder {
  DType type;
  ValueId x;
  explicit Gelu(DType t = DType::f32) : type(t), x(input("x", shape, t)) {}
  ValueId op(const std::string& name, const std::string& op, std::vector<ValueId> in) {
    return node(name, op, std::move(in), shape, type);
  }
  ValueId number(double v) { return scalar(v, type); }

  /// x / sqrt(2) → Erf → + 1.
  ValueId erf_plus_one(double root = std::sqrt(2.0), double one = 1) {
    ValueId erf = op("erf", "Erf", {op("div", "Div", {x, number(root)})});
    return op("plus", "Add", {erf, number(one)});
  }
  /// Tanh(sqrt(2/pi) * (x + 0.044715 x^3)) + 1.
  ValueId tanh_plus_one(bool pow, double cubic = 0.044715) {
    ValueId cube = pow ? op("cube", "Pow", {x, scalar(3)}) : op("cube", "Mul", {op("square", "Mul", {x, x}), x});
    ValueId inner = op("inner", "Add", {x, op("c", "Mul", {number(cubic), cube})});
    return op("plus", "Add", {number(1), op("tanh", "Tanh", {op("k", "Mul", {inner, number(0.7978845608028654)})})});
  }
  /// x * 0.5 * p
  ValueId finish(ValueId p) { return op("y", "Mul", {op("half", "Mul", {x, number(0.5)}), p}); }
  Ledger check(const char* fn) {
    Ledger ledger = rewrite_and_compare(g, {"recognise_gelu"});
    EXPECT_EQ(matches(ledger, "recognise_gelu"), 1u);
    EXPECT_NE(only(g, "Pointwise").program->print().find(std::string("= ") + fn + "("), std::string::npos);
    EXPECT_EQ(g.live_nodes(), 1u);
    return ledger;
  }
};

TEST(RecogniseGelu, takes_the_erf_form_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    SCOPED_TRACE(name(t));
    Gelu b(t);
    b.output(b.finish(b.erf_plus_one()));
    Ledger ledger = b.check("gelu");
    EXPECT_EQ(ledger[0].nodes.size(), 5u);
  }
}

TEST(RecogniseGelu, takes_any_order_of_the_factors) {
  Gelu b;
  ValueId p = b.erf_plus_one();
  b.output(b.op("y", "Mul", {b.number(0.5), b.op("xp", "Mul", {p, b.x})}));
  b.check("gelu");
}

TEST(RecogniseGelu, takes_the_half_distributed_over_the_sum) {
  Gelu b;
  ValueId erf = b.op("erf", "Erf", {b.op("scaled", "Mul", {b.number(std::sqrt(0.5)), b.x})});
  ValueId p = b.op("p", "Add", {b.op("h", "Mul", {erf, b.number(0.5)}), b.number(0.5)});
  b.output(b.op("y", "Mul", {p, b.x}));
  b.check("gelu");
}

TEST(RecogniseGelu, takes_the_tanh_form_with_pow_and_with_products) {
  for (bool pow : {true, false}) {
    Gelu b;
    b.output(b.finish(b.tanh_plus_one(pow)));
    b.check("gelu_tanh");
  }
}

TEST(RecogniseGelu, takes_the_factored_tanh_form) {
  Gelu b;  // x * (0.79788 + 0.035677 x^2)
  ValueId square = b.op("square", "Mul", {b.x, b.x});
  ValueId sum =
      b.op("sum", "Add", {b.op("c", "Mul", {square, b.number(0.7978845608028654 * 0.044715)}), b.number(0.7978845608028654)});
  ValueId tanh = b.op("tanh", "Tanh", {b.op("arg", "Mul", {b.x, sum})});
  b.output(b.finish(b.op("plus", "Add", {tanh, b.number(1)})));
  b.check("gelu_tanh");
}

TEST(RecogniseGelu, leaves_other_constants_alone) {
  Gelu root;
  root.output(root.finish(root.erf_plus_one(1.5)));
  EXPECT_EQ(rejection(run_only(root.g, "recognise_gelu"), "recognise_gelu"), "wrong_value");
  Gelu one;
  one.output(one.finish(one.erf_plus_one(std::sqrt(2.0), 1.01)));
  EXPECT_EQ(rejection(run_only(one.g, "recognise_gelu"), "recognise_gelu"), "wrong_value");
  Gelu cubic;
  cubic.output(cubic.finish(cubic.tanh_plus_one(true, 0.05)));
  EXPECT_EQ(rejection(run_only(cubic.g, "recognise_gelu"), "recognise_gelu"), "not looked at");
}

TEST(RecogniseGelu, does_not_take_f32_digits_for_f64) {
  Gelu b(DType::f64);
  b.output(b.finish(b.erf_plus_one(1.4142135381698608)));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_gelu"), "recognise_gelu"), "wrong_value");
}

TEST(RecogniseGelu, stays_apart_when_a_value_inside_has_another_reader) {
  Gelu b;
  ValueId p = b.erf_plus_one();
  b.output(b.finish(p));
  b.output(b.op("other", "Neg", {p}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_gelu"), "recognise_gelu"), "extra_reader");
}

TEST(RecogniseGelu, stays_apart_when_a_value_inside_is_a_graph_output) {
  Gelu b;
  ValueId p = b.erf_plus_one();
  b.output(b.finish(p));
  b.output(p);
  EXPECT_EQ(rejection(run_only(b.g, "recognise_gelu"), "recognise_gelu"), "graph_output");
}

TEST(RecogniseGelu, stays_apart_when_the_factor_is_another_value) {
  Gelu b;
  ValueId z = b.input("z", shape);
  b.output(b.op("y", "Mul", {b.op("half", "Mul", {z, b.number(0.5)}), b.erf_plus_one()}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_gelu"), "recognise_gelu"), "wrong_reader");
}

TEST(RecogniseGelu, leaves_a_tanh_of_its_own_alone) {
  Gelu b;
  b.output(b.op("y", "Tanh", {b.x}));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_gelu"), "recognise_gelu"), "not looked at");
}

}  // namespace
}  // namespace smelt::fuse
