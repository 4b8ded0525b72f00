#include <gmock/gmock.h>

#include "fuse/rewrites/layout/concat.h"
#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

using testing::ElementsAre;

const SymShape image{1, 4, 8, 8}, small{1, 4, 4, 4}, joined{1, 8, 8, 8};

/// a, b → Relu each → Concat "join" over the channels → Conv "conv"
struct Join : Builder {
  ValueId a, b, concat;
  explicit Join(int64_t axis = 1, const SymShape& to = joined) {
    a = node("a", "Relu", {input("x", image)}, image);
    b = node("b", "Relu", {input("y", image)}, image);
    concat = node("join", "Concat", {a, b}, to, DType::f32, {{"axis", axis}});
    output(node("conv", "Conv", {concat, weights("w", {4, 8, 1, 1})}, image));
  }
};

TEST(ConcatInPlace, lets_the_producers_write_their_slices) {
  Join j;
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "matched");
}

TEST(ConcatInPlace, changes_nothing_and_is_listed_once) {
  Join j;
  const Ledger ledger = run_only(j.g, "concat_in_place");
  ASSERT_EQ(ledger.size(), 1u);
  EXPECT_TRUE(ledger[0].matched);
  EXPECT_THAT(ledger[0].nodes, ElementsAre("a", "b", "join"));
  EXPECT_EQ(j.g.live_nodes(), 4u);
}

TEST(ConcatInPlace, counts_axes_from_the_end_too) {
  Join j(-3);
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "matched");
}

TEST(ConcatInPlace, copies_a_constant) {
  Join j;
  j.g.set_input(j["join"], 1, j.weights("c", {1, 4, 8, 8}));
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "wrong_producer by join");
}

TEST(ConcatInPlace, copies_a_graph_input) {
  Join j;
  j.g.set_input(j["join"], 1, j.input("z", image));
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "wrong_producer by join");
}

TEST(ConcatInPlace, copies_a_view) {
  Join j;
  const ValueId flat = j.input("z", {1, 256});
  j.g.set_input(j["join"], 1, j.node("view", "Reshape", {flat, j.ints({1, 4, 8, 8})}, image));
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "wrong_producer by view");
}

TEST(ConcatInPlace, copies_a_graph_output) {
  Join j;
  j.output(j.a);
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "graph_output by a");
}

TEST(ConcatInPlace, copies_a_value_that_comes_twice) {
  Join j;
  j.g.set_input(j["join"], 1, j.a);
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "extra_reader by join");
}

TEST(ConcatInPlace, gives_a_value_to_the_first_of_two_concats) {
  Join j;
  j.output(j.node("second", "Concat", {j.a, j.b}, joined, DType::f32, {{"axis", int64_t{1}}}));
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "matched");
  EXPECT_EQ(verdict(j, concat_in_place, "second"), "extra_reader by join");
}

TEST(ConcatInPlace, copies_the_result_of_control_flow) {
  Join j;
  const ValueId looped = j.node("loop", "Loop", {j.a}, image);
  j.g.set_input(j["join"], 1, looped);
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "in_subgraph by loop");
}

TEST(ConcatInPlace, needs_producers_that_write_rows_apart_along_an_inner_axis) {
  Join j(3, {1, 4, 8, 16});
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "matched");
  j.g.edit(j["b"]).op = "Softmax";
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "wrong_axis by b");
  j.g.set_shape(j.concat, SymShape{Dim("batch"), 4, 8, 16});
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "unknown_shape by b");
}

TEST(ConcatInPlace, needs_readers_that_read_rows_apart_along_an_inner_axis) {
  Join j(3, {1, 4, 8, 16});
  j.output(j.node("view", "Reshape", {j.a, j.ints({-1})}, {256}));
  EXPECT_EQ(verdict(j, concat_in_place, "join"), "wrong_reader by view");
}

TEST(ConcatConv, reads_its_inputs_in_segments) {
  Join j;
  apply_match(j, concat_conv_everywhere, "conv");
  const Node& n = j.g.node(j["conv"]);
  EXPECT_TRUE(n.is("Conv", smelt_domain));
  EXPECT_EQ(n.get_int("segments", 0), 2);
  EXPECT_THAT(n.get_ints("upsample"), ElementsAre(1, 1));
  EXPECT_THAT(std::vector(n.inputs.begin(), n.inputs.begin() + 2), ElementsAre(j.a, j.b));
  EXPECT_EQ(n.inputs.size(), 3u);
  EXPECT_TRUE(j.g.readers(j.concat).empty());
}

TEST(ConcatConv, keeps_a_fused_convolutions_program_and_operands) {
  Join j;
  const NodeId conv = j["conv"];
  j.g.edit(conv).domain = smelt_domain;
  j.g.set_input(conv, 2, ValueId::none);
  const ValueId r = j.input("r", image);
  j.g.set_input(conv, 3, r);
  j.g.edit(conv).program = expr::Program::parse("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
  verify(j.g);
  apply_match(j.g, concat_conv_everywhere(j.g, conv));
  EXPECT_EQ(j.g.node(j["conv"]).in(4), r);
}

std::map<std::string, Attribute> nearest() {
  return {{"mode", std::string("nearest")},
          {"coordinate_transformation_mode", std::string("asymmetric")},
          {"nearest_mode", std::string("floor")}};
}

struct Upsampled : Join {
  explicit Upsampled(std::map<std::string, Attribute> attrs = nearest()) {
    const ValueId low = node("low", "Relu", {input("z", small)}, small);
    const ValueId scales = constant("", Tensor::of<float>({4}, {1, 1, 2, 2}));
    g.set_input((*this)["join"], 1, node("up", "Resize", {low, ValueId::none, scales}, image, DType::f32, std::move(attrs)));
  }
};

TEST(ConcatConv, reads_through_a_nearest_upsampling) {
  Upsampled u;
  apply_match(u, concat_conv_everywhere, "conv");
  const Node& n = u.g.node(u["conv"]);
  EXPECT_THAT(n.get_ints("upsample"), ElementsAre(1, 2));
  EXPECT_EQ(u.g.producer(u["conv"], 1), u["low"]);
}

TEST(ConcatConv, reads_the_result_of_an_upsampling_that_interpolates) {
  Upsampled u({{"mode", std::string("linear")}});
  apply_match(u, concat_conv_everywhere, "conv");
  EXPECT_THAT(u.g.node(u["conv"]).get_ints("upsample"), ElementsAre(1, 1));
  EXPECT_EQ(u.g.producer(u["conv"], 1), u["up"]);
}

TEST(ConcatConv, reads_the_result_of_an_upsampling_that_others_read) {
  Upsampled u;
  u.output(u.node("other", "Relu", {u.g.node(u["up"]).out()}, image));
  apply_match(u, concat_conv_everywhere, "conv");
  EXPECT_THAT(u.g.node(u["conv"]).get_ints("upsample"), ElementsAre(1, 1));
}

// A model that is read for its structure need not declare shapes that fit its operators.
TEST(ConcatConv, finds_no_factor_in_an_upsampling_of_fewer_axes) {
  for (const SymShape& shape : {SymShape{}, SymShape{4}, SymShape{4, 4}}) {
    Builder b;
    const ValueId x = b.input("x", shape), scales = b.constant("", Tensor::empty(DType::f32, {0}));
    b.output(b.node("up", "Resize", {x, ValueId::none, scales}, shape, DType::f32, nearest()));
    EXPECT_EQ(nearest_factor(b.g, b["up"]), std::nullopt);
  }
}

TEST(ConcatConv, stays_apart_when_the_axis_is_not_the_channels) {
  Join j(2, {1, 4, 16, 8});
  EXPECT_EQ(verdict(j, concat_conv_everywhere, "conv"), "wrong_axis by join");
}

TEST(ConcatConv, stays_apart_when_something_else_reads_the_concatenation) {
  Join j;
  j.output(j.node("other", "Relu", {j.concat}, joined));
  EXPECT_EQ(verdict(j, concat_conv_everywhere, "conv"), "extra_reader by other");
}

TEST(ConcatConv, serves_two_convolutions) {
  Join j;
  j.output(j.node("conv2", "Conv", {j.concat, j.weights("w2", {4, 8, 1, 1})}, image));
  apply_match(j, concat_conv_everywhere, "conv");
  apply_match(j, concat_conv_everywhere, "conv2");
  EXPECT_TRUE(j.g.readers(j.concat).empty());
}

TEST(ConcatConv, stays_apart_when_the_concatenation_is_a_graph_output) {
  Join j;
  j.output(j.concat);
  EXPECT_EQ(verdict(j, concat_conv_everywhere, "conv"), "graph_output by join");
}

TEST(ConcatConv, stays_apart_from_grouped_convolutions) {
  Join j;
  j.g.edit(j["conv"]).attrs["group"] = int64_t{2};
  EXPECT_EQ(verdict(j, concat_conv_everywhere, "conv"), "wrong_attribute by conv");
}

TEST(ConcatConv, needs_to_know_the_channels) {
  Join j;
  j.g.set_shape(j.b, SymShape{1, Dim("c"), 8, 8});
  EXPECT_EQ(verdict(j, concat_conv_everywhere, "conv"), "unknown_shape by join");
}

TEST(ConcatForms, the_pipeline_follows_the_option) {
  for (ConcatForm form : {ConcatForm::in_place, ConcatForm::segments}) {
    Join j;
    const Ledger ledger = run(j.g, {.concat = form});
    const bool segments = form == ConcatForm::segments;
    EXPECT_EQ(count(j.g, "Concat"), segments ? 0u : 1u);
    size_t in_place = 0;
    for (const Entry& e : ledger) in_place += e.matched && e.rewrite == "concat_in_place";
    EXPECT_EQ(in_place, segments ? 0u : 1u);
  }
}

TEST(ConcatForms, segments_serve_where_a_slice_cannot_be_written_in_place) {
  Join j;
  j.g.set_input(j["join"], 1, j.input("z", image));
  run(j.g);
  EXPECT_EQ(count(j.g, "Concat"), 0u);
}

}  // namespace
}  // namespace smelt::fuse
