#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

/// Builds a body graph: values by name, nodes on them.
class Body {
 public:
  ValueId input(const std::string& name, DType type, Shape shape) {
    const ValueId v = graph_->add_value(name, type, to_sym(shape));
    graph_->add_input(v);
    return v;
  }
  ValueId constant(const std::string& name, Tensor t) { return graph_->add_constant(name, std::move(t)); }
  ValueId node(const std::string& op, std::vector<ValueId> inputs, DType type, std::optional<SymShape> shape) {
    Node n = make_node(op, 0, {}, 0);
    n.inputs = std::move(inputs);
    const ValueId out = graph_->add_value(op + "_out", type, std::move(shape));
    n.outputs = {out};
    graph_->add_node(n);
    return out;
  }
  Body& output(ValueId v) {
    graph_->add_output(v);
    return *this;
  }
  GraphPtr graph() const { return graph_; }

 private:
  GraphPtr graph_ = std::make_shared<Graph>();
};

Tensor boolean(bool v) {
  Tensor t = Tensor::empty(DType::boolean, {});
  *t.data<bool>() = v;
  return t;
}

const SymShape scalar = {};

TEST(If, runs_one_branch_on_the_captured_values) {
  Body yes, no;
  const ValueId a = yes.input("x", DType::f32, {}), b = no.input("x", DType::f32, {});
  yes.output(yes.node("Neg", {a}, DType::f32, scalar));
  no.output(no.node("Abs", {b}, DType::f32, scalar));
  const Attributes attrs{{"then_branch", yes.graph()}, {"else_branch", no.graph()}, {"captured", int64_t{1}}};
  expect_near(run("If", {boolean(true), f32({}, {3})}, attrs), {}, {-3});
  expect_near(run("If", {boolean(false), f32({}, {-3})}, attrs), {}, {3});
}

TEST(If, a_branch_that_returns_a_captured_value_returns_a_copy) {
  Body same;
  same.output(same.input("x", DType::f32, {}));
  const Tensor x = f32({}, {3});
  const Tensor y =
      run("If", {boolean(true), x}, {{"then_branch", same.graph()}, {"else_branch", same.graph()}, {"captured", int64_t{1}}});
  EXPECT_NE(y.raw(), x.raw());
  expect_near(y, {}, {3});
}

/// state' = state + captured, also stacked; goes on while state' < limit.
GraphPtr counting_body(float limit) {
  Body body;
  body.input("i", DType::i64, {});
  body.input("go", DType::boolean, {});
  const ValueId state = body.input("state", DType::f32, {}), step = body.input("step", DType::f32, {});
  const ValueId sum = body.node("Add", {state, step}, DType::f32, scalar);
  const ValueId less = body.node("Less", {sum, body.constant("limit", f32({}, {limit}))}, DType::boolean, scalar);
  return body.output(less).output(sum).output(sum).graph();
}

TEST(Loop, stops_at_its_trip_count) {
  const auto y = run_all("Loop", {i64({}, {3}), Tensor(), f32({}, {1}), f32({}, {2})},
                         {{"body", counting_body(0)}, {"captured", int64_t{1}}}, 2);
  expect_near(y[0], {}, {7});
  expect_near(y[1], {3}, {3, 5, 7});
}

TEST(Loop, stops_when_its_condition_turns_false) {
  const auto y = run_all("Loop", {i64({}, {100}), boolean(true), f32({}, {0}), f32({}, {2})},
                         {{"body", counting_body(5)}, {"captured", int64_t{1}}}, 2);
  expect_near(y[0], {}, {6});
  expect_near(y[1], {3}, {2, 4, 6});
}

TEST(Loop, without_an_iteration_returns_its_state_and_empty_stacks) {
  const auto y = run_all("Loop", {i64({}, {5}), boolean(false), f32({}, {4}), f32({}, {2})},
                         {{"body", counting_body(5)}, {"captured", int64_t{1}}}, 2);
  expect_near(y[0], {}, {4});
  expect_near(y[1], {0}, {});
}

TEST(Loop, hands_its_scalars_over_in_the_shape_of_one_element_that_the_body_declares) {
  Body body;
  body.input("i", DType::i64, {1});
  const ValueId go = body.input("go", DType::boolean, {1}), state = body.input("state", DType::f32, {});
  const ValueId sum = body.node("Add", {state, state}, DType::f32, scalar);
  const auto y = run_all("Loop", {i64({}, {3}), boolean(true), f32({}, {1})}, {{"body", body.output(go).output(sum).graph()}}, 1);
  expect_near(y[0], {}, {8});
}

TEST(Scan, walks_along_axes_in_both_directions) {
  Body body;
  const ValueId state = body.input("state", DType::f32, {2}), x = body.input("x", DType::f32, {2});
  const ValueId sum = body.node("Add", {state, x}, DType::f32, to_sym({2}));
  const GraphPtr g = body.output(sum).output(sum).graph();
  const Tensor zero = f32({2}, {0, 0}), in = f32({2, 3}, {1, 2, 3, 10, 20, 30});  // scanned along axis 1
  const auto y =
      run_all("Scan", {zero, in},
              {{"body", g}, {"num_scan_inputs", int64_t{1}}, {"scan_input_axes", Ints{1}}, {"scan_output_axes", Ints{-1}}}, 2);
  expect_near(y[0], {2}, {6, 60});
  expect_near(y[1], {2, 3}, {1, 3, 6, 10, 30, 60});
  const auto back = run_all("Scan", {zero, in},
                            {{"body", g},
                             {"num_scan_inputs", int64_t{1}},
                             {"scan_input_axes", Ints{1}},
                             {"scan_input_directions", Ints{1}},
                             {"scan_output_directions", Ints{1}}},
                            2);
  expect_near(back[1], {3, 2}, {6, 60, 5, 50, 3, 30});
}

TEST(Scan, that_hands_an_element_on_as_its_state_returns_a_copy) {
  Body body;
  body.input("state", DType::f32, {2});
  const ValueId x = body.input("x", DType::f32, {2});
  const Tensor zero = f32({2}, {0, 0}), in = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto y = run_all("Scan", {zero, in}, {{"body", body.output(x).output(x).graph()}, {"num_scan_inputs", int64_t{1}}}, 2);
  expect_near(y[0], {2}, {5, 6});
  expect_near(y[1], {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto* first = static_cast<const char*>(in.raw());
  EXPECT_FALSE(y[0].raw() >= first && y[0].raw() < first + in.nbytes());
}

}  // namespace
}  // namespace smelt::ops::test
