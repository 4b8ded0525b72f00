// Sequences and optional values that the import replaces by tensors.
#include <gmock/gmock.h>

#include "import/models.h"

namespace smelt {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::import;
using testing::parse;

/// "Concat Split" of the graph's nodes in order; constants are no nodes.
std::string ops_of(const Graph& g) {
  std::string ops;
  for (const NodeId n : g.topological()) ops += (ops.empty() ? "" : " ") + g.node(n).op;
  return ops;
}

std::string shape_of(const Graph& g) {
  const auto& shape = g.value(g.outputs()[0]).shape;
  return shape ? to_string(*shape) : "unknown";
}

std::string imported(const std::string& graph) { return ops_of(import(parse(20, graph))); }

std::string shape_of_output(const std::string& graph) {
  const Graph g = import(parse(20, graph));
  return shape_of(g);
}

TEST(Sequences, constructed_and_concatenated_are_a_concat) {
  const Graph g = import(parse(20, R"(g (float[2, 3] x, float[4, 3] y) => (float[n, 3] z) {
    s = SequenceConstruct(x, y) z = ConcatFromSequence <axis = 0> (s) })"));
  EXPECT_EQ(ops_of(g), "Concat");
  EXPECT_EQ(shape_of(g), "[6, 3]");
}

TEST(Sequences, stacked_along_a_new_axis_are_unsqueezed_first) {
  const std::string graph = R"(g (float[2, 3] x, float[2, 3] y) => (float[a, b, c] z) {
    s = SequenceConstruct(x, y) z = ConcatFromSequence <axis = -1, new_axis = 1> (s) })";
  EXPECT_EQ(imported(graph), "Unsqueeze Unsqueeze Concat");
  EXPECT_EQ(shape_of_output(graph), "[2, 3, 2]");
}

TEST(Sequences, a_constant_position_picks_the_element) {
  EXPECT_EQ(imported(R"(g (float[2] x, float[3] y) => (float[n] z) {
    i = Constant <value_int = -1> () s = SequenceConstruct(x, y) e = SequenceAt(s, i) z = Relu(e) })"),
            "Identity Relu");
  EXPECT_EQ(shape_of_output(R"(g (float[2] x, float[3] y) => (float[n] z) {
    i = Constant <value_int = -1> () s = SequenceConstruct(x, y) z = SequenceAt(s, i) })"),
            "[3]");
}

TEST(Sequences, a_position_that_a_run_finds_gathers_among_elements_of_one_shape) {
  EXPECT_EQ(imported(R"(g (float[2] x, float[2] y, int64 i) => (float[n] z) {
    s = SequenceConstruct(x, y) z = SequenceAt(s, i) })"),
            "Unsqueeze Unsqueeze Concat Gather");
  EXPECT_THAT(error_of(parse(20, R"(g (float[2] x, float[3] y, int64 i) => (float[n] z) {
    s = SequenceConstruct(x, y) z = SequenceAt(s, i) })")),
              HasSubstr("(SequenceAt)"));
}

TEST(Sequences, a_position_outside_says_the_node_and_the_length) {
  EXPECT_THAT(error_of(parse(20, R"(g (float[2] x) => (float[n] z) {
    i = Constant <value_int = 1> () s = SequenceConstruct(x) z = SequenceAt(s, i) })")),
              HasSubstr("position 1 in a sequence of 1"));
}

TEST(Sequences, splits_with_constant_sizes_are_a_split) {
  const std::string graph = R"(g (float[2, 7] x) => (float[2, n] z) <int64 k = {3}> {
    i = Constant <value_int = 2> () s = SplitToSequence <axis = -1> (x, k) z = SequenceAt(s, i) })";
  EXPECT_EQ(imported(graph), "Split Identity");
  EXPECT_EQ(shape_of_output(graph), "[2, 1]") << "3, 3 and what is left";
}

TEST(Sequences, splits_of_one_element_each_may_lose_the_axis) {
  const std::string graph = R"(g (float[2, 3] x) => (float[n] z) {
    i = Constant <value_int = 0> () s = SplitToSequence <axis = 0, keepdims = 0> (x) z = SequenceAt(s, i) })";
  EXPECT_EQ(imported(graph), "Split Squeeze Squeeze Identity");
  EXPECT_EQ(shape_of_output(graph), "[3]");
}

TEST(Sequences, sizes_that_a_run_finds_split_where_their_number_is_known) {
  EXPECT_EQ(imported(R"(g (float[2, 7] x, int64[2] sizes) => (float[a, n] z) {
    i = Constant <value_int = 1> () s = SplitToSequence <axis = 1> (x, sizes) z = SequenceAt(s, i) })"),
            "Split Identity");
}

TEST(Sequences, inserting_and_erasing_change_the_list) {
  const Graph g = import(parse(20, R"(g (float[2] x, float[3] y, float[4] z) => (float[n] out, int64 length) {
    zero = Constant <value_int = 0> () e = SequenceEmpty() a = SequenceInsert(e, x) b = SequenceInsert(a, y)
    c = SequenceInsert(b, z, zero) d = SequenceErase(c) length = SequenceLength(d) out = ConcatFromSequence <axis = 0> (d) })"));
  EXPECT_EQ(shape_of(g), "[6]") << "z and x: y was the last";
  EXPECT_EQ(g.value(g.outputs()[1]).constant.to_ints(), std::vector<int64_t>{2});
}

TEST(Sequences, a_map_is_its_body_once_an_element) {
  EXPECT_EQ(imported(R"(g (float[2] x, float[3] y, float b) => (float[n] z) {
    s = SequenceConstruct(x, y)
    m = SequenceMap <body = f (float[k] e, float c) => (float[k] r) { t = Add(e, c) r = Relu(t) }> (s, b)
    z = ConcatFromSequence <axis = 0> (m) })"),
            "Add Relu Add Relu Concat");
}

TEST(Sequences, branches_that_give_as_many_elements_give_tensors) {
  const Graph g = import(parse(20, R"(g (float[2] x, float[3] y, bool b) => (float[n] z) {
    s = If (b) <then_branch = t () => (s1) { s1 = SequenceConstruct(x, y) },
                else_branch = e () => (s2) { s2 = SequenceConstruct(y, y) }>
    z = ConcatFromSequence <axis = 0> (s) })"));
  EXPECT_EQ(ops_of(g), "If Concat");
  EXPECT_EQ(g.node(g.topological()[0]).outputs.size(), 2u);
}

TEST(Optionals, that_are_there_are_their_tensors) {
  const Graph g = import(parse(20, R"(g (float[2] x) => (float[n] y, bool has) {
    o = Optional(x) has = OptionalHasElement(o) y = OptionalGetElement(o) })"));
  EXPECT_EQ(shape_of(g), "[2]");
  EXPECT_EQ(*g.value(g.outputs()[1]).constant.data<bool>(), true);
}

TEST(Optionals, that_are_left_out_have_no_element) {
  const Graph g = import(parse(20, R"(g (float[2] x) => (bool has, float[2] y) { has = OptionalHasElement() y = Relu(x) })"));
  EXPECT_EQ(*g.value(g.outputs()[0]).constant.data<bool>(), false);
}

TEST(Sequences, that_a_loop_of_known_length_appends_to_are_its_turns) {
  const std::string graph = R"(g (float[2, 3] x) => (float[m] z, float[a, b] w, float[c, d] kept) <int64 turns = {3}> {
    yes = Constant <value = bool {1}> () s = SequenceEmpty()
    t, last, kept = Loop (turns, yes, s, x) <body = b (int64 i, bool go, seq(float[2, 3]) l, float[2, 3] v)
        => (bool on, seq(float[2, 3]) k, float[2, 3] next, float[3] row) {
      on = Identity(go) k = SequenceInsert(l, v) next = Relu(v) zero = Constant <value_int = 0> () row = Gather(v, zero) }>
    z = ConcatFromSequence <axis = 0> (t) w = Neg(last) })";
  const Graph g = import(parse(20, graph));
  EXPECT_EQ(to_string(*g.value(g.outputs()[0]).shape), "[6, 3]");
  EXPECT_EQ(to_string(*g.value(g.outputs()[2]).shape), "[3, 3]");
  EXPECT_THAT(ops_of(g), ::testing::Not(HasSubstr("Loop")));
}

TEST(Sequences, that_a_loop_with_a_condition_of_its_own_appends_to_are_its_stacked_results) {
  const Graph g =
      import(parse(20, R"(g (float[2] x, bool more) => (float[m] z, float[a, b] both, int64 count) <int64 turns = {3}> {
    s = SequenceEmpty()
    t = Loop (turns, more, s) <body = b (int64 i, bool go, seq(float[2]) l) => (bool on, seq(float[2]) k) {
      on = Not(go) k = SequenceInsert(l, x) }>
    z = ConcatFromSequence <axis = 0> (t) both = ConcatFromSequence <axis = 1, new_axis = 1> (t) count = SequenceLength(t) })"));
  EXPECT_THAT(ops_of(g), HasSubstr("Loop"));
  EXPECT_EQ(to_string(*g.value(g.outputs()[1]).shape).substr(0, 3), "[2,");
  EXPECT_EQ(g.value(g.outputs()[0]).shape->size(), 1u);
}

std::string refused(const std::string& body) {
  return error_of(parse(20, R"(g (float[2] x, int64 n) => (float[m] z) {
    yes = Constant <value = bool {1}> () s = SequenceEmpty() first = Constant <value_int = 0> ()
    t = Loop (n, yes, s) <body = b (int64 i, bool go, seq(float[2]) l) => (bool on, seq(float[2]) k) {
      on = Identity(go) )" + body +
                                R"( }>
    z = ConcatFromSequence <axis = 0> (t) })"));
}

TEST(Sequences, that_a_loop_does_more_with_than_append_are_listed) {
  EXPECT_THAT(refused("k = SequenceInsert(l, x, first)"), HasSubstr("(Loop)"));
  EXPECT_THAT(refused("k = SequenceErase(l)"), HasSubstr("(Loop)"));
  EXPECT_THAT(refused("c = SequenceLength(l) f = Cast <to = 1> (c) y = Add(x, f) k = SequenceInsert(l, y)"), HasSubstr("(Loop)"));
}

}  // namespace
}  // namespace smelt
