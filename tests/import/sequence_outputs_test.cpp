// Outputs that a model declares as sequences: tensors in the graph, a sequence again in its plan.
#include "graph/sequence_outputs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "import/export.h"
#include "import/models.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::import;
using testing::parse;

std::vector<std::string> outputs_of(const Graph& g) {
  std::vector<std::string> names;
  for (const ValueId v : g.outputs()) names.push_back(g.value(v).name);
  return names;
}

std::vector<SequenceOutput> sequences_of(const Graph& g) { return sequences_in(g.model.metadata); }

onnx::ModelProto exported(const Graph& g) {
  onnx::ModelProto m;
  m.ParseFromString(export_bytes(g));
  return m;
}

/// The plan declares what the model did, and is the graph again.
void expect_round_trip(const Graph& g) {
  const onnx::ModelProto plan = exported(g);
  const Graph again = import(plan);
  EXPECT_EQ(outputs_of(again), outputs_of(g));
  EXPECT_EQ(sequences_of(again), sequences_of(g));
  if (std::ranges::none_of(sequences_of(g), &SequenceOutput::stacked)) {
    EXPECT_EQ(print(again), print(g));
  }
  for (const SequenceOutput& s : sequences_of(g)) {
    const auto is = [&](const auto& o) { return o.name() == s.name && o.type().has_sequence_type(); };
    EXPECT_EQ(std::ranges::count_if(plan.graph().output(), is), 1) << s.name;
  }
}

TEST(SequenceOutputs, of_a_construction_are_its_items) {
  const Graph g = import(parse(20, R"(g (float[2] x, float[3] y) => (float[2] before, seq(float[N]) s, float[3] after) {
    before = Relu(x) a = Neg(y) s = SequenceConstruct(before, a, x, a) after = Abs(y) })"));
  EXPECT_THAT(outputs_of(g), ElementsAre("before", "s_0", "s_1", "s_2", "s_3", "after"));
  EXPECT_THAT(sequences_of(g), ElementsAre(SequenceOutput{"s", DType::f32, 1, 4, false}));
  EXPECT_EQ(to_string(*g.value(g.outputs()[2]).shape), "[3]");
  expect_round_trip(g);
}

TEST(SequenceOutputs, of_a_split_are_its_parts) {
  const Graph g = import(parse(20, R"(g (float16[2, 6] x) => (seq(float16[A, B]) s, seq(float16[A]) t) {
    k = Constant <value_int = 4> () s = SplitToSequence <axis = 1> (x, k) t = SplitToSequence <axis = 0, keepdims = 0> (x) })"));
  EXPECT_THAT(outputs_of(g), ElementsAre("s_0", "s_1", "t_0", "t_1"));
  EXPECT_EQ(to_string(*g.value(g.outputs()[1]).shape), "[2, 2]");
  EXPECT_EQ(to_string(*g.value(g.outputs()[3]).shape), "[6]");
  EXPECT_THAT(sequences_of(g),
              ElementsAre(SequenceOutput{"s", DType::f16, 0, 2, false}, SequenceOutput{"t", DType::f16, 2, 2, false}));
  expect_round_trip(g);
}

TEST(SequenceOutputs, that_a_run_sizes_are_stacked) {
  for (const char* keepdims : {"0", "1"}) {
    const std::string item = keepdims[0] == '0' ? "seq(float[M])" : "seq(float[K, M])";
    const Graph g = import(parse(20, "g (float[N, 3] x) => (" + item + R"( s, float[N, 3] y) {
      s = SplitToSequence <axis = 0, keepdims = )" +
                                         keepdims + "> (x) y = Relu(x) }"));
    EXPECT_THAT(outputs_of(g), ElementsAre("s_stacked", "y"));
    EXPECT_THAT(sequences_of(g), ElementsAre(SequenceOutput{"s", DType::f32, 0, 1, true}));
    EXPECT_EQ(g.value(g.outputs()[0]).shape->size(), keepdims[0] == '0' ? 2u : 3u);
    expect_round_trip(g);
  }
}

TEST(SequenceOutputs, of_a_loop_are_its_turns) {
  const Graph g = import(parse(20, R"(g (float[2] x, int64 turns) => (seq(float[2]) t) {
    yes = Constant <value = bool {1}> () s = SequenceEmpty()
    t = Loop (turns, yes, s) <body = b (int64 i, bool go, seq(float[2]) l) => (bool on, seq(float[2]) k) {
      on = Identity(go) f = Cast <to = 1> (i) y = Add(x, f) k = SequenceInsert(l, y) }> })"));
  EXPECT_THAT(outputs_of(g), ElementsAre("t_stacked"));
  expect_round_trip(g);
}

TEST(SequenceOutputs, may_be_empty_and_stand_beside_others) {
  const Graph g = import(parse(20, R"(g (float[2] x) => (seq(int64[N]) none, seq(float[2]) one, float[2] y) {
    none = SequenceEmpty <dtype = 7> () one = SequenceConstruct(x) y = Relu(x) })"));
  EXPECT_THAT(outputs_of(g), ElementsAre("one_0", "y"));
  EXPECT_THAT(sequences_of(g),
              ElementsAre(SequenceOutput{"none", DType::i64, 0, 0, false}, SequenceOutput{"one", DType::f32, 0, 1, false}));
  expect_round_trip(g);
}

TEST(SequenceOutputs, take_names_that_are_free) {
  const Graph g = import(parse(20, R"(g (float[2] s_0) => (seq(float[2]) s, float[2] s_1) {
    s_1 = Relu(s_0) s = SequenceConstruct(s_1, s_0) })"));
  const auto names = outputs_of(g);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 3u);
  EXPECT_EQ(names[2], "s_1");
  expect_round_trip(g);
}

TEST(SequenceOutputs, that_only_a_run_knows_are_listed) {
  EXPECT_THAT(error_of(parse(20, R"(g (float[2] x, float[2] y, bool c) => (seq(float[2]) s) {
    s = If (c) <then_branch = t () => (a) { a = SequenceConstruct(x, y) }, else_branch = e () => (b) { b = SequenceConstruct(x) }> })")),
              HasSubstr("SequenceConstruct"));
}

TEST(SequenceOutputs, are_written_and_read_back_whatever_their_names) {
  const std::vector<SequenceOutput> all = {
      {"", DType::f32, 0, 0, false}, {" a b\\\n\\n ", DType::u8, 3, 12, false}, {"stacked", DType::f16, 15, 1, true}};
  EXPECT_EQ(sequences_in({{sequences_key, print(all)}}), all);
  for (const char* text : {"x", "0 1", "0 -1 1 s\n", "0 99999999999999999999 1 s\n", "-\n", "0 two 1 s\n"})
    EXPECT_TRUE(sequences_in({{sequences_key, text}}).empty()) << text;
  EXPECT_TRUE(sequences_in({}).empty());
}

TEST(SequenceOutputs, are_what_the_nodes_make_and_not_what_metadata_says) {
  onnx::ModelProto m = parse(20, "g (float[2] x) => (float[2] y) { y = Relu(x) }");
  auto* e = m.add_metadata_props();
  e->set_key(sequences_key);
  e->set_value("0 7 1 s\n");
  EXPECT_TRUE(sequences_of(import(m)).empty());
}

/// Of each node and output the parts that a file may lack, one at a time.
std::vector<std::function<void(onnx::GraphProto&)>> damages(const onnx::GraphProto& g) {
  std::vector<std::function<void(onnx::GraphProto&)>> all;
  for (int n = 0; n < g.node_size(); ++n) {
    const auto damage = [&](auto change) { all.push_back([=](onnx::GraphProto& of) { change(*of.mutable_node(n)); }); };
    for (int i = 0; i < g.node(n).input_size(); ++i) {
      damage([=](onnx::NodeProto& of) { of.mutable_input()->DeleteSubrange(i, of.input_size() - i); });
      damage([=](onnx::NodeProto& of) { of.mutable_input(i)->clear(); });
      damage([=](onnx::NodeProto& of) { of.set_input(i, "nothing"); });
    }
    for (int i = 0; i < g.node(n).output_size(); ++i) {
      damage([=](onnx::NodeProto& of) { of.mutable_output()->DeleteSubrange(i, of.output_size() - i); });
      damage([=](onnx::NodeProto& of) { of.mutable_output(i)->clear(); });
    }
    for (int i = 0; i < g.node(n).attribute_size(); ++i) {
      damage([=](onnx::NodeProto& of) { of.mutable_attribute()->DeleteSubrange(i, 1); });
      damage([=](onnx::NodeProto& of) { of.mutable_attribute(i)->clear_i(); });
      damage([=](onnx::NodeProto& of) { of.mutable_attribute(i)->clear_g(); });
    }
    damage([](onnx::NodeProto& of) { of.clear_name(); });
    damage([](onnx::NodeProto& of) { of.set_op_type("Identity"); });
    damage([](onnx::NodeProto& of) { of.set_op_type("SequenceConstruct"); });
  }
  for (int o = 0; o < g.output_size(); ++o) {
    const auto damage = [&](auto change) { all.push_back([=](onnx::GraphProto& of) { change(*of.mutable_output(o)); }); };
    damage([](onnx::ValueInfoProto& of) { of.clear_type(); });
    damage([](onnx::ValueInfoProto& of) { of.clear_name(); });
    damage([](onnx::ValueInfoProto& of) { of.set_name("x"); });
    damage([](onnx::ValueInfoProto& of) { of.mutable_type()->mutable_sequence_type(); });
    damage([](onnx::ValueInfoProto& of) {
      of.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_sequence_type();
    });
    damage([](onnx::ValueInfoProto& of) { of.mutable_type()->mutable_optional_type()->mutable_elem_type(); });
    all.push_back([=](onnx::GraphProto& of) { *of.add_output() = onnx::ValueInfoProto(of.output(o)); });
    all.push_back([=](onnx::GraphProto& of) { of.mutable_output()->DeleteSubrange(o, 1); });
  }
  all.push_back([](onnx::GraphProto& of) { of.clear_input(); });
  all.push_back([](onnx::GraphProto& of) { of.clear_node(); });
  return all;
}

TEST(SequenceOutputs, of_damaged_models_are_errors_or_graphs) {
  const char* models[] = {
      R"(g (float[2] x, float[3] y) => (float[2] before, seq(float[N]) s, float[3] after) {
         before = Relu(x) a = Identity(y) s = SequenceConstruct(before, a, x, a) after = Abs(y) })",
      R"(g (float[N, 3] x) => (seq(float[M]) s, seq(float[A, B]) t, float[N, 3] y) {
         s = SplitToSequence <axis = 0, keepdims = 0> (x) k = Constant <value_int = 2> () t = SplitToSequence <axis = 1> (x, k)
         y = Relu(x) })",
      R"(g (float[2] x, int64 turns) => (seq(float[2]) t, seq(int64[N]) none) {
         yes = Constant <value = bool {1}> () s = SequenceEmpty() none = SequenceEmpty <dtype = 7> ()
         t = Loop (turns, yes, s) <body = b (int64 i, bool go, seq(float[2]) l) => (bool on, seq(float[2]) k) {
           on = Identity(go) f = Cast <to = 1> (i) y = Add(x, f) k = SequenceInsert(l, y) }> })",
      R"(g (float[2] x, bool c) => (seq(float[2]) s) {
         s = If (c) <then_branch = t () => (a) { a = SequenceConstruct(x, x) }, else_branch = e () => (b) { d = Neg(x) b = SequenceConstruct(x, d) }> })"};
  int imported = 0, refused = 0;
  for (const char* text : models) {
    const onnx::ModelProto whole = parse(20, text);
    const auto everywhere = [&](const auto& change) {
      onnx::ModelProto m = whole;
      change(*m.mutable_graph());
      try {
        exported(import(m));
        ++imported;
      } catch (const Error&) {
        ++refused;
      }
    };
    for (const auto& damage : damages(whole.graph())) everywhere(damage);
    for (int n = 0; n < whole.graph().node_size(); ++n)
      for (int a = 0; a < whole.graph().node(n).attribute_size(); ++a)
        for (const auto& damage : damages(whole.graph().node(n).attribute(a).g()))
          everywhere([&](onnx::GraphProto& g) { damage(*g.mutable_node(n)->mutable_attribute(a)->mutable_g()); });
  }
  EXPECT_GT(imported, 40);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace smelt
