#include <algorithm>
#include <cmath>
#include <set>

#include "ops/core/interpreter.h"
#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

using testing::HasSubstr;

TEST(Registry, finds_an_operator_by_name_and_domain) {
  ASSERT_NE(find("Add", ""), nullptr);
  EXPECT_EQ(find("Add", "ai.onnx"), find("Add", ""));
  EXPECT_EQ(find("Add", "com.microsoft"), nullptr);
  EXPECT_EQ(find("NoSuchOperator", ""), nullptr);
}

TEST(Registry, lists_every_definition_once_and_whole) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const OpDef* def : all()) {
    EXPECT_TRUE(seen.emplace(def->domain, def->op).second) << def->domain << ":" << def->op;
    EXPECT_NE(def->infer, nullptr) << def->op;
    EXPECT_NE(def->reference, nullptr) << def->op;
    EXPECT_EQ(find(def->op, def->domain), def);
  }
}

TEST(Evaluate, names_the_node_in_its_errors) {
  EXPECT_THAT(error_of([] { run("Add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}); }), HasSubstr("'n' (Add)"));
  EXPECT_THAT(error_of([] { run("NoSuchOperator", {}); }), HasSubstr("'n' (NoSuchOperator)"));
}

TensorDesc described(DType type, const Shape& shape) { return {type, shape, true, nullptr}; }

TEST(Contract, refuses_extents_whose_product_is_no_number) {
  const Node node = make_node("Relu", 1);
  std::vector<TensorDesc> out(1);
  for (const Shape& s :
       {Shape{0, int64_t{1} << 40, int64_t{1} << 40}, Shape{0, int64_t{1} << 40}, Shape{int64_t{1} << 62}, Shape{3, -1}}) {
    const TensorDesc in[] = {described(DType::f32, s)};
    EXPECT_THAT(error_of([&] { infer(node, in, out); }), HasSubstr("'n' (Relu): a tensor f32")) << to_string(s);
  }
  const TensorDesc fits[] = {described(DType::f32, {0, int64_t{1} << 24})};
  infer(node, fits, out);
  EXPECT_EQ(out[0].shape, fits[0].shape);
}

TEST(Contract, operands_of_a_pointwise_operator_broadcast_to_its_result) {
  std::vector<TensorDesc> out(1);
  const TensorDesc x = described(DType::f32, {3, 4, 1});
  const auto with = [&](const char* op, const Shape& operand) {
    const TensorDesc in[] = {x, described(DType::f32, operand)};
    return error_of([&] { infer(make_node(op, 2), in, out); });
  };
  EXPECT_EQ(with("Clip", {}), "");
  EXPECT_EQ(with("Clip", {1}), "");
  EXPECT_THAT(with("Clip", {2}), HasSubstr("expected a scalar"));
  EXPECT_EQ(with("PRelu", {4, 1}), "");
  EXPECT_THAT(with("PRelu", {2}), HasSubstr("does not broadcast"));
}

TEST(Evaluate, of_no_elements_leaves_nothing_as_the_memory_was) {
  const auto y = run_all("LayerNormalization", {f32({2, 3, 0}, {}), f32({0}, {})}, {}, 3);
  EXPECT_EQ(y[0].shape(), (Shape{2, 3, 0}));
  for (const size_t made : {1u, 2u}) {  // a row's mean and deviation: of none
    EXPECT_EQ(y[made].shape(), (Shape{2, 3, 1}));
    EXPECT_TRUE(std::ranges::all_of(y[made].to_doubles(), [](double v) { return std::isnan(v); }));
  }
}

TEST(Evaluate, leaves_outputs_out_that_the_node_does_not_ask_for) {
  Node node;
  node.op = "Split";
  node.inputs = {ValueId(0)};
  node.outputs = {ValueId::none, ValueId(1)};
  const std::vector<Tensor> in = {f32({4}, {1, 2, 3, 4})}, out = evaluate(node, in);
  EXPECT_FALSE(out[0].valid());
  EXPECT_TENSOR(out[1], ({2}), ({3, 4}));
}

struct Chain {
  Graph g;
  ValueId x, y;
  explicit Chain(int length) {
    x = g.add_value("x", DType::f32, SymShape{2});
    g.add_input(x);
    y = x;
    for (int i = 0; i < length; ++i) {
      Node n;
      n.op = "Neg";
      n.inputs = {y};
      y = g.add_value("", DType::f32, SymShape{2});
      n.outputs = {y};
      g.add_node(std::move(n));
    }
    g.add_output(y);
  }
};

TEST(Interpreter, runs_a_graph_in_order) {
  const Chain chain(3);
  EXPECT_TENSOR(evaluate(chain.g, std::vector<Tensor>{f32({2}, {1, -2})})[0], ({2}), ({-1, 2}));
}

TEST(Interpreter, frees_an_intermediate_after_its_last_reader) {
  const Chain chain(5);
  int live = 0, most = 0;
  const auto counted = [&](const Tensor& like) {  // a tensor that knows when its last copy goes
    most = std::max(most, ++live);
    auto bytes = std::shared_ptr<void>(new float[2]{}, [&live](void* p) {
      --live;
      delete[] static_cast<float*>(p);
    });
    return Tensor::borrow(like.type(), like.shape(), bytes.get(), bytes);
  };
  const Interpreter how{[&](const Node&, std::span<const Tensor> in) { return std::vector<Tensor>{counted(in[0])}; },
                        [](const Tensor& t) { return t; }};
  const std::vector<Tensor> out = interpret(chain.g, std::vector<Tensor>{f32({2}, {1, 2})}, how);
  EXPECT_EQ(live, 1);  // the graph's output
  EXPECT_LE(most, 2);  // a node's input and its output
}

TEST(Interpreter, refuses_a_wrong_number_of_inputs) {
  const Chain chain(1);
  EXPECT_THAT(error_of([&] { evaluate(chain.g, std::vector<Tensor>{}); }), HasSubstr("has 1 inputs, 0 tensors"));
}

}  // namespace
}  // namespace smelt::ops::test
