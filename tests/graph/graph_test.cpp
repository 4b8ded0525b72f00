#include "graph/graph.h"

#include <gmock/gmock.h>

#include "support/errors.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// x → Relu a → y; x, y → Add b → z
struct Small {
  Graph g;
  ValueId x, y, z;
  NodeId a, b;
  Small() {
    g.name = "small";
    x = g.add_value("x", DType::f32, SymShape{2});
    g.add_input(x);
    y = g.add_value("y", DType::f32, SymShape{2});
    z = g.add_value("z", DType::f32, SymShape{2});
    a = g.add_node({.op = "Relu", .name = "a", .inputs = {x}, .outputs = {y}});
    b = g.add_node({.op = "Add", .name = "b", .inputs = {x, y}, .outputs = {z}});
    g.add_output(z);
  }
};

std::string broken(const Graph& g) {
  return error_of([&] { verify(g); });
}

TEST(Graph, knows_producers_and_readers) {
  const Small s;
  EXPECT_EQ(s.g.value(s.y).producer, s.a);
  EXPECT_EQ(s.g.producer(s.b, 1), s.a);
  EXPECT_EQ(s.g.producer(s.b, 0), NodeId::none);
  EXPECT_EQ(s.g.readers(s.x).size(), 2u);
  EXPECT_EQ(s.g.only_reader(s.y), s.b);
  EXPECT_EQ(s.g.only_reader(s.x), NodeId::none);
  EXPECT_EQ(s.g.only_reader(s.z), NodeId::none);
  EXPECT_EQ(s.g.find_node("b"), s.b);
  EXPECT_EQ(s.g.find_value("y"), s.y);
  EXPECT_EQ(s.g.find_value("nothing"), ValueId::none);
  EXPECT_EQ(broken(s.g), "");
}

TEST(Graph, makes_names_unique) {
  Small s;
  EXPECT_EQ(s.g.value(s.g.add_value("x", DType::f32, {})).name, "x_1");
  EXPECT_EQ(s.g.value(s.g.add_value("x", DType::f32, {})).name, "x_2");
  EXPECT_NE(s.g.value(s.g.add_value("", DType::f32, {})).name, s.g.value(s.g.add_value("", DType::f32, {})).name);
}

TEST(Graph, moves_uses_to_another_value) {
  Small s;
  s.g.replace_uses(s.y, s.x);
  EXPECT_THAT(s.g.node(s.b).inputs, ElementsAre(s.x, s.x));
  EXPECT_EQ(s.g.readers(s.x).size(), 3u);
  EXPECT_TRUE(s.g.readers(s.y).empty());
  EXPECT_EQ(broken(s.g), "");
}

TEST(Graph, moves_outputs_to_another_value) {
  Small s;
  s.g.replace_uses(s.z, s.y);
  EXPECT_THAT(s.g.outputs(), ElementsAre(s.y));
}

TEST(Graph, another_node_takes_over_a_removed_ones_output) {
  Small s;
  s.g.remove_node(s.b);
  EXPECT_THAT(broken(s.g), HasSubstr("output 'z' is not defined"));
  s.g.add_node({.op = "Neg", .name = "c", .inputs = {s.y}, .outputs = {s.z}});
  EXPECT_EQ(broken(s.g), "");
  EXPECT_EQ(s.g.live_nodes(), 2u);
}

TEST(Graph, refuses_a_second_producer_and_a_computed_constant) {
  Small s;
  EXPECT_THROW(s.g.add_node({.op = "Neg", .name = "c", .inputs = {s.x}, .outputs = {s.y}}), Error);
  EXPECT_THROW(s.g.set_constant(s.y, Tensor::of<float>({2}, {1, 2})), Error);
}

TEST(Graph, sorts_by_dependency_and_then_by_order) {
  Graph g;
  const ValueId x = g.add_value("x", DType::f32, {});
  g.add_input(x);
  std::vector<ValueId> v;
  for (int i = 0; i < 4; ++i) v.push_back(g.add_value("", DType::f32, {}));
  const NodeId late = g.add_node({.op = "A", .name = "late", .inputs = {v[2]}, .outputs = {v[0]}, .order = 1});
  const NodeId second = g.add_node({.op = "B", .name = "second", .inputs = {x}, .outputs = {v[1]}, .order = 9});
  const NodeId first = g.add_node({.op = "C", .name = "first", .inputs = {x}, .outputs = {v[2]}, .order = 5});
  EXPECT_THAT(g.topological(), ElementsAre(first, late, second));
}

TEST(Graph, names_the_nodes_of_a_cycle) {
  Small s;
  s.g.set_input(s.a, 0, s.z);
  EXPECT_THAT(broken(s.g), testing::AllOf(HasSubstr("cycle"), HasSubstr("'a' (Relu)"), HasSubstr("'b' (Add)")));
}

TEST(Graph, clone_copies_bodies_and_shares_constants) {
  Small s;
  auto body = std::make_shared<Graph>(Small().g);
  s.g.edit(s.a).attrs["body"] = body;
  const ValueId w = s.g.add_constant("w", Tensor::of<float>({2}, {1, 2}));
  Graph copy = clone(s.g);
  body->name = "changed";
  EXPECT_EQ(copy.node(s.a).get_graph("body")->name, "small");
  EXPECT_EQ(copy.value(w).constant.raw(), s.g.value(w).constant.raw());
}

TEST(Graph, merges_sources_in_order_without_duplicates) {
  Small s;
  s.g.sources() = {{"p", "Relu", {}}, {"q", "Add", {}}};
  s.g.edit(s.a).sources = {1, 0};
  s.g.edit(s.b).sources = {1};
  s.g.merge_sources(s.b, s.a);
  EXPECT_THAT(s.g.node(s.b).sources, ElementsAre(0, 1));
}

TEST(Node, attribute_of_another_type_is_an_error_that_names_it) {
  Node n{.op = "Conv", .name = "conv", .attrs = {{"group", 2.0f}}};
  EXPECT_EQ(n.get_float("group", 1), 2);
  EXPECT_EQ(n.get_int("missing", 7), 7);
  try {
    n.get_int("group", 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("conv"), HasSubstr("group"), HasSubstr("expected an integer")));
  }
}

TEST(Verify, finds_an_edge_that_only_one_side_knows) {
  Small s;
  s.g.edit(s.b).inputs[1] = s.x;
  EXPECT_THAT(broken(s.g), HasSubstr("reader"));
}

TEST(Verify, finds_a_value_without_a_type) {
  Small s;
  s.g.set_type(s.y, DType::undefined);
  EXPECT_THAT(broken(s.g), HasSubstr("'y' has no element type"));
}

TEST(Verify, finds_a_constant_that_differs_from_its_value) {
  Small s;
  const ValueId w = s.g.add_constant("w", Tensor::of<float>({2}, {1, 2}));
  s.g.set_shape(w, SymShape{3});
  EXPECT_THAT(broken(s.g), HasSubstr("constant 'w' has shape [2]"));
  s.g.set_shape(w, SymShape{2});
  s.g.set_type(w, DType::f16);
  EXPECT_THAT(broken(s.g), HasSubstr("constant 'w' holds f32"));
}

TEST(Verify, finds_an_undefined_input) {
  Small s;
  s.g.set_input(s.b, 1, s.g.add_value("lost", DType::f32, {}));
  EXPECT_THAT(broken(s.g), HasSubstr("reads 'lost', which nothing defines"));
}

TEST(Verify, finds_a_source_that_does_not_exist) {
  Small s;
  s.g.edit(s.a).sources = {3};
  EXPECT_THAT(broken(s.g), HasSubstr("names source 3"));
}

TEST(Verify, looks_into_bodies) {
  Small s;
  auto body = std::make_shared<Graph>(Small().g);
  s.g.edit(s.a).attrs = {{"body", body}, {"captured", int64_t{1}}};
  EXPECT_EQ(broken(s.g), "");
  body->set_type(body->inputs()[0], DType::f16);
  EXPECT_THAT(broken(s.g), HasSubstr("captured value 0"));
}

// --- the fused operators' rules ---

struct Fused : Small {
  NodeId n;
  explicit Fused(std::string op, std::string program, std::vector<ValueId> inputs = {}) {
    if (inputs.empty()) inputs = {x, x, y};
    const ValueId out = g.add_value("out", DType::f32, SymShape{2});
    Node node{
        .domain = std::string(smelt_domain), .op = std::move(op), .name = "fused", .inputs = std::move(inputs), .outputs = {out}};
    if (!program.empty()) node.program = expr::Program::parse(program);
    n = g.add_node(std::move(node));
  }
};

TEST(Verify, accepts_a_program_that_fits_its_operator) {
  EXPECT_EQ(broken(Fused("MatMul", "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }").g), "");
}

TEST(Verify, finds_a_program_with_other_inputs) {
  EXPECT_THAT(broken(Fused("MatMul", "(in0:f32) { return in0 }").g), HasSubstr("the program has 1 inputs, expected 2"));
  EXPECT_THAT(broken(Fused("MatMul", "(in0:f32, in1:f16) { return in0 }").g), HasSubstr("is f32, the program takes f16"));
  EXPECT_THAT(broken(Fused("MatMul", "(in0:f16, in1:f32) { %2 = cast(in0):f32; return %2 }").g), HasSubstr("in0 is f16"));
}

TEST(Verify, finds_a_program_with_another_result) {
  EXPECT_THAT(broken(Fused("MatMul", "(in0:f32, in1:f32) { %2 = cast(in0):f16; return %2 }").g), HasSubstr("output 0 is f16"));
  EXPECT_THAT(broken(Fused("MatMul", "(in0:f32, in1:f32) { return in0, in1 }").g), HasSubstr("2 outputs"));
}

TEST(Verify, finds_operands_that_nothing_reads_and_regions_without_program) {
  EXPECT_THAT(broken(Fused("MatMul", "").g), HasSubstr("operands need a program"));
  EXPECT_THAT(broken(Fused("Pointwise", "").g), HasSubstr("needs a program"));
}

TEST(Verify, finds_a_fused_operator_that_does_not_exist) { EXPECT_THAT(broken(Fused("Sparkle", "").g), HasSubstr("Sparkle")); }

TEST(Verify, knows_which_inputs_may_be_left_out) {
  EXPECT_EQ(broken(Fused("Norm", "", {ValueId{0}, ValueId::none, ValueId{1}}).g), "");
  EXPECT_THAT(broken(Fused("MatMul", "", {ValueId{0}, ValueId::none}).g), HasSubstr("input 1 is left out"));
}

TEST(Print, shows_a_node_with_its_types_attributes_and_sources) {
  Small s;
  s.g.sources() = {{"node_relu", "Relu", {}}};
  s.g.edit(s.a).sources = {0};
  s.g.edit(s.a).attrs = {{"axis", int64_t{1}}, {"pads", std::vector<int64_t>{1, 2}}, {"mode", std::string("same")}};
  EXPECT_EQ(print(s.g),
            "graph small(x: f32[2])\n"
            "%0 y: f32[2] = Relu(x) {axis=1, mode=\"same\", pads=[1, 2]}  ← node_relu\n"
            "%1 z: f32[2] = Add(x, y)\n"
            "return z\n");
  EXPECT_EQ(describe(s.g, s.b), "'b' (Add)");
}

/// Whether every producer's position is below its readers'.
bool in_position(const Graph& g) {
  for (NodeId n : g.topological())
    for (size_t i = 0; i < g.node(n).inputs.size(); ++i)
      if (const NodeId p = g.producer(n, i); p != NodeId::none && g.position(p) >= g.position(n)) return false;
  return true;
}

TEST(Graph, positions_grow_along_edges_whatever_is_changed) {
  // A chain of pairs; then nodes are put between, readers moved to later values, and pieces fused, many times at one place.
  Graph g;
  std::vector<ValueId> values{g.add_value("x", DType::f32, SymShape{2})};
  g.add_input(values[0]);
  const auto add = [&](std::vector<ValueId> inputs, int64_t order) {
    const ValueId out = g.add_value("", DType::f32, SymShape{2});
    return std::pair(g.add_node({.op = "Add", .inputs = std::move(inputs), .outputs = {out}, .order = order}), out);
  };
  for (int i = 0; i < 50; ++i) values.push_back(add({values.back(), values[values.size() / 2]}, 0).second);
  g.add_output(values.back());
  EXPECT_TRUE(in_position(g));
  for (int i = 0; i < 200; ++i) {
    const NodeId reader = g.readers(values[20])[0].node;
    const auto [between, out] = add({values[20], values[0]}, g.node(reader).order);
    g.set_input(reader, 0, out);
    ASSERT_TRUE(in_position(g)) << i;
  }
  g.replace_uses(values[3], values[1]);
  EXPECT_TRUE(in_position(g));
  const ValueId result = values[40];
  const NodeId old = g.value(result).producer;
  g.remove_node(old);
  g.add_node({.op = "Sub", .inputs = {values[39], values[38]}, .outputs = {result}, .order = 3});
  EXPECT_TRUE(in_position(g));
  EXPECT_EQ(broken(g), "");
}

TEST(Graph, many_readers_come_and_go) {
  Graph g;
  const ValueId x = g.add_value("x", DType::f32, SymShape{2}), y = g.add_value("y", DType::f32, SymShape{2});
  g.add_input(x);
  g.add_input(y);
  std::vector<NodeId> nodes;
  for (int i = 0; i < 300; ++i) {
    const ValueId out = g.add_value("", DType::f32, SymShape{2});
    nodes.push_back(g.add_node({.op = "Add", .inputs = {x, i % 3 ? y : x}, .outputs = {out}}));
    g.add_output(out);
  }
  EXPECT_EQ(g.readers(x).size(), 400u);
  for (size_t i = 0; i < nodes.size(); i += 2) g.set_input(nodes[i], 0, y);
  EXPECT_EQ(g.readers(x).size(), 250u);
  EXPECT_EQ(broken(g), "");
  g.replace_uses(y, x);
  EXPECT_TRUE(g.readers(y).empty());
  EXPECT_EQ(g.readers(x).size(), 600u);
  for (size_t i = 0; i < nodes.size(); i += 3) g.remove_node(nodes[i]);
  EXPECT_EQ(g.readers(x).size(), 400u);
  Graph copy = g;
  copy.set_input(nodes[1], 1, y);
  EXPECT_EQ(g.readers(x).size(), 400u);
  EXPECT_EQ(copy.readers(x).size(), 399u);
  g.remove_node(nodes[1]);
  EXPECT_EQ(g.topological().size(), 199u);
}

TEST(Graph, knows_inputs_and_outputs_as_they_change) {
  Small s;
  EXPECT_TRUE(s.g.is_input(s.x) && s.g.is_output(s.z));
  EXPECT_FALSE(s.g.is_output(s.y) || s.g.is_input(s.y) || s.g.is_output(ValueId::none));
  s.g.add_output(s.z);
  s.g.set_output(0, s.y);
  EXPECT_TRUE(s.g.is_output(s.y) && s.g.is_output(s.z));
  s.g.replace_uses(s.z, s.x);
  EXPECT_FALSE(s.g.is_output(s.z));
  s.g.set_outputs({s.z, s.z});
  EXPECT_FALSE(s.g.is_output(s.x));
  s.g.set_outputs({s.y});
  EXPECT_FALSE(s.g.is_output(s.z));
}

}  // namespace
}  // namespace smelt
