#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape shape{4, 3};

ValueId gate(Builder& b, ValueId x, DType t = DType::f32) { return b.node("sigmoid", "Sigmoid", {x}, shape, t); }

TEST(RecogniseSilu, takes_both_orders_in_every_float_type) {
  for (DType t : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (bool swapped : {false, true}) {
      SCOPED_TRACE(name(t));
      Builder b;
      ValueId x = b.input("x", shape, t), s = gate(b, x, t);
      b.output(b.node("y", "Mul", swapped ? std::vector{s, x} : std::vector{x, s}, shape, t));
      Ledger ledger = rewrite_and_compare(b.g, {"recognise_silu"});
      EXPECT_EQ(matches(ledger, "recognise_silu"), 1u);
      EXPECT_NE(only(b.g, "Pointwise").program->print().find("silu"), std::string::npos);
    }
}

TEST(RecogniseSilu, works_over_symbolic_shapes) {
  Builder b;
  const SymShape s{Dim("batch"), Dim()};
  ValueId x = b.g.add_value("x", DType::f32, SymShape{Dim("batch"), Dim("width")});
  b.g.add_input(x);
  ValueId sigmoid = b.node("sigmoid", "Sigmoid", {x}, s);
  b.output(b.node("y", "Mul", {x, sigmoid}, s));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_silu"}, {{"batch", 2}, {"width", 7}}), "recognise_silu"), 1u);
}

TEST(RecogniseSilu, leaves_a_gate_over_another_value_alone) {
  Builder b;
  ValueId x = b.input("x", shape), z = b.input("z", shape);
  b.output(b.node("y", "Mul", {z, gate(b, x)}, shape));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_silu"), "recognise_silu"), "wrong_reader");
}

TEST(RecogniseSilu, stays_apart_when_the_sigmoid_has_another_reader) {
  Builder b;
  ValueId x = b.input("x", shape), s = gate(b, x);
  b.output(b.node("y", "Mul", {x, s}, shape));
  b.output(b.node("z", "Neg", {s}, shape));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_silu"), "recognise_silu"), "extra_reader");
}

TEST(RecogniseSilu, stays_apart_when_the_sigmoid_is_a_graph_output) {
  Builder b;
  ValueId x = b.input("x", shape), s = gate(b, x);
  b.output(b.node("y", "Mul", {x, s}, shape));
  b.output(s);
  EXPECT_EQ(rejection(run_only(b.g, "recognise_silu"), "recognise_silu"), "graph_output");
}

TEST(RecogniseHardSwish, takes_the_hard_sigmoid_form) {
  Builder b;
  ValueId x = b.input("x", shape);
  ValueId h = b.node("h", "HardSigmoid", {x}, shape, DType::f32, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  b.output(b.node("y", "Mul", {h, x}, shape));
  EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_hard_swish"}), "recognise_hard_swish"), 1u);
}

TEST(RecogniseHardSwish, takes_the_clip_form_in_any_order) {
  for (bool divide_first : {false, true}) {
    Builder b;
    ValueId x = b.input("x", shape);
    ValueId clip = b.node("clip", "Clip", {b.node("add", "Add", {x, b.scalar(3)}, shape), b.scalar(0), b.scalar(6)}, shape);
    if (divide_first)
      b.output(b.node("y", "Mul", {x, b.node("div", "Div", {clip, b.scalar(6)}, shape)}, shape));
    else
      b.output(b.node("y", "Div", {b.node("mul", "Mul", {x, clip}, shape), b.scalar(6)}, shape));
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"recognise_hard_swish"}), "recognise_hard_swish"), 1u);
  }
}

TEST(RecogniseHardSwish, leaves_other_constants_alone) {
  Builder b;
  ValueId x = b.input("x", shape);
  ValueId h = b.node("h", "HardSigmoid", {x}, shape);  // alpha 0.2
  b.output(b.node("y", "Mul", {h, x}, shape));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_hard_swish"), "recognise_hard_swish"), "wrong_attribute");
  Builder c;
  ValueId z = c.input("x", shape);
  ValueId clip = c.node("clip", "Clip", {c.node("add", "Add", {z, c.scalar(2)}, shape), c.scalar(0), c.scalar(6)}, shape);
  c.output(c.node("y", "Mul", {z, c.node("div", "Div", {clip, c.scalar(6)}, shape)}, shape));
  EXPECT_EQ(rejection(run_only(c.g, "recognise_hard_swish"), "recognise_hard_swish"), "wrong_value");
}

TEST(RecogniseHardSwish, leaves_a_squeeze_excite_gate_alone) {
  Builder b;
  ValueId x = b.input("x", shape), z = b.input("z", shape);
  ValueId h = b.node("h", "HardSigmoid", {x}, shape, DType::f32, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  b.output(b.node("y", "Mul", {h, z}, shape));
  EXPECT_EQ(rejection(run_only(b.g, "recognise_hard_swish"), "recognise_hard_swish"), "wrong_reader");
}

TEST(RecogniseHardSwish, stays_apart_when_a_value_inside_has_another_reader) {
  Builder b;
  ValueId x = b.input("x", shape);
  ValueId h = b.node("h", "HardSigmoid", {x}, shape, DType::f32, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  b.output(b.node("y", "Mul", {h, x}, shape));
  b.output(h);
  EXPECT_EQ(rejection(run_only(b.g, "recognise_hard_swish"), "recognise_hard_swish"), "graph_output");
}

}  // namespace
}  // namespace smelt::fuse
