#include <gmock/gmock.h>

#include <set>

#include "fuse/rewriter.h"
#include "fuse/rewrites/rewrites.h"
#include "smelt/error.h"

namespace smelt::fuse {
namespace {

Graph chain(const std::vector<std::string>& ops) {
  Graph g;
  ValueId v = g.add_value("x", DType::f32, SymShape{2, 3});
  g.add_input(v);
  for (size_t i = 0; i < ops.size(); ++i) {
    g.sources().push_back({"n" + std::to_string(i), ops[i], {}});
    const ValueId out = g.add_value("", DType::f32, SymShape{2, 3});
    g.add_node(
        {.op = ops[i], .name = g.sources().back().name, .inputs = {v}, .outputs = {out}, .sources = {static_cast<int32_t>(i)}});
    v = out;
  }
  g.add_output(v);
  return g;
}

Match drop(const Graph& g, NodeId n) {
  return {{n}, [n, in = g.node(n).in(0), out = g.node(n).out()](Graph& graph) {
            graph.replace_uses(out, in);
            graph.remove_node(n);
            return NodeId::none;
          }};
}

/// Neg(Neg(x)) → x; the ledger explains a lone Neg.
Outcome double_neg(const Graph& g, NodeId n) {
  if (!g.node(n).is("Neg")) return NotHere{};
  const NodeId inner = g.producer(n, 0);
  if (inner == NodeId::none || !g.node(inner).is("Neg")) return refuse(Reason::wrong_producer, inner, "no Neg before it");
  return Match{{inner, n}, [n, x = g.node(inner).in(0), y = g.node(n).out()](Graph& graph) {
                 graph.replace_uses(y, x);
                 graph.remove_node(n);
                 return NodeId::none;
               }};
}

Outcome drop_abs(const Graph& g, NodeId n) {
  if (!g.node(n).is("Abs")) return NotHere{};
  return drop(g, n);
}

constexpr Rewrite rewrites[] = {{"double_neg", double_neg}, {"drop_abs", drop_abs}, {"dead_code", dead_code}};

TEST(Run, repeats_until_nothing_changes) {
  Graph g = chain({"Neg", "Abs", "Neg"});
  const Ledger ledger = run(g, rewrites);
  EXPECT_EQ(g.live_nodes(), 0u);
  EXPECT_EQ(g.outputs()[0], g.inputs()[0]);
}

TEST(Run, keeps_the_match_of_a_place_that_was_first_rejected) {
  Graph g = chain({"Neg", "Abs", "Neg"});
  int at_last = 0;
  for (const Entry& e : run(g, rewrites)) {
    if (e.rewrite != "double_neg" || e.nodes.back() != "n2") continue;
    ++at_last;
    EXPECT_TRUE(e.matched);
    EXPECT_EQ(e.reason, "");
    EXPECT_THAT(e.nodes, testing::ElementsAre("n0", "n2"));
  }
  EXPECT_EQ(at_last, 1);
}

TEST(Run, says_why_a_place_was_rejected_and_by_whom) {
  Graph g = chain({"Exp", "Neg"});
  const Ledger ledger = run(g, rewrites);
  ASSERT_EQ(ledger.size(), 1u);
  EXPECT_FALSE(ledger[0].matched);
  EXPECT_EQ(ledger[0].reason, "wrong_producer");
  EXPECT_EQ(ledger[0].blocker, "n0");
  EXPECT_THAT(ledger[0].nodes, testing::ElementsAre("n1"));
}

TEST(Run, lists_entries_in_pipeline_order_then_graph_order) {
  Graph g = chain({"Abs", "Neg", "Abs", "Exp", "Neg"});
  std::vector<std::string> seen;
  for (const Entry& e : run(g, rewrites)) seen.push_back(e.rewrite + " " + e.nodes.back());
  EXPECT_THAT(seen, testing::ElementsAre("double_neg n1", "double_neg n4", "drop_abs n0", "drop_abs n2"));
}

TEST(Run, leaves_out_a_skipped_rewrite) {
  Graph g = chain({"Abs", "Neg"});
  run(g, rewrites, {.skip = {"drop_abs"}});
  EXPECT_EQ(g.live_nodes(), 2u);
}

TEST(Run, names_the_rewrites_when_asked_to_skip_one_that_does_not_exist) {
  Graph g = chain({"Abs"});
  try {
    run(g, rewrites, {.skip = {"drop_asb"}});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_THAT(e.what(), testing::HasSubstr("drop_asb"));
    EXPECT_THAT(e.next(), testing::HasSubstr("drop_abs"));
  }
}

Outcome breaks_the_graph(const Graph& g, NodeId n) {
  if (!g.node(n).is("Abs")) return NotHere{};
  return Match{{n}, [n](Graph& graph) {
                 graph.remove_node(n);  // its reader is left with an undefined value
                 return NodeId::none;
               }};
}

TEST(Run, names_the_rewrite_that_leaves_an_invalid_graph) {
  Graph g = chain({"Abs", "Neg"});
  const Rewrite bad[] = {{"breaks_the_graph", breaks_the_graph}};
  try {
    run(g, bad);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("breaks_the_graph"));
  }
}

Outcome rename_neg(const Graph& g, NodeId n) {
  if (!g.node(n).is("Neg")) return NotHere{};
  return Match{{n}, [n](Graph& graph) {
                 graph.edit(n).op = "Abs";
                 return n;
               }};
}
Outcome rename_abs(const Graph& g, NodeId n) {
  if (!g.node(n).is("Abs")) return NotHere{};
  return Match{{n}, [n](Graph& graph) {
                 graph.edit(n).op = "Neg";
                 return n;
               }};
}

TEST(Run, stops_two_rewrites_that_undo_each_other) {
  Graph g = chain({"Neg"});
  const Rewrite pair[] = {{"rename_neg", rename_neg}, {"rename_abs", rename_abs}};
  EXPECT_THROW(run(g, pair), Error);
}

TEST(Run, works_in_the_bodies_of_control_flow) {
  auto body = std::make_shared<Graph>(chain({"Abs", "Exp"}));
  Graph g = chain({"Exp"});
  const ValueId out = g.add_value("looped", DType::f32, std::nullopt);
  g.add_node({.op = "Loop",
              .name = "loop",
              .inputs = {g.inputs()[0]},
              .outputs = {out},
              .attrs = {{"body", body}, {"captured", int64_t{1}}}});
  g.add_output(out);
  run(g, rewrites);
  EXPECT_EQ(body->live_nodes(), 1u);
}

TEST(DeadCode, removes_a_chain_that_nobody_reads) {
  Graph g = chain({"Exp"});
  const ValueId a = g.add_value("a", DType::f32, SymShape{2, 3}), b = g.add_value("b", DType::f32, SymShape{2, 3});
  g.add_node({.op = "Neg", .name = "first", .inputs = {g.inputs()[0]}, .outputs = {a}});
  g.add_node({.op = "Neg", .name = "second", .inputs = {a}, .outputs = {b}});
  const Rewrite only[] = {{"dead_code", dead_code}};
  EXPECT_EQ(run(g, only).size(), 2u);
  EXPECT_EQ(g.live_nodes(), 1u);
}

TEST(DeadCode, keeps_a_node_when_one_of_its_outputs_is_read) {
  Graph g = chain({"Exp"});
  const ValueId a = g.add_value("a", DType::f32, std::nullopt), b = g.add_value("b", DType::f32, std::nullopt);
  g.add_node({.op = "Split", .name = "split", .inputs = {g.inputs()[0]}, .outputs = {a, b}});
  g.add_output(b);
  const Rewrite only[] = {{"dead_code", dead_code}};
  EXPECT_EQ(run(g, only).size(), 0u);
  EXPECT_EQ(g.live_nodes(), 2u);
}

TEST(Pipeline, names_each_rewrite_once) {
  std::vector<std::string_view> names;
  for (const Rewrite& r : pipeline()) names.push_back(r.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(TextOf, is_of_what_changes_a_graph) {
  const std::string text = text_of({});
  EXPECT_THAT(text, testing::MatchesRegex("sources [0-9a-f]{16}, .*"));
  EXPECT_EQ(text_of({.verify_each = false, .rates = {1e9, 5}}), text);
  std::set<std::string> texts{text};
  const Options others[] = {
      {.skip = {"conv_epilogue"}}, {.concat = ConcatForm::segments}, {.int8_by_constants = true},
      {.taken_apart = true},       {.blocks_in_parts = true},        {.bare_f64_conv = true},
      {.causal_apart = true},      {.widened = WidenedFloats::f16},  {.widened = WidenedFloats::f16_and_bf16}};
  for (const Options& o : others) EXPECT_TRUE(texts.insert(text_of(o)).second) << text_of(o);
  EXPECT_EQ(text_of({.skip = {"conv_epilogue", "attention"}}), text_of({.skip = {"attention", "conv_epilogue", "attention"}}));
}

TEST(Reason, has_a_name) {
  EXPECT_EQ(name(Reason::wrong_producer), "wrong_producer");
  EXPECT_EQ(name(Reason::unsupported), "unsupported");
}

}  // namespace
}  // namespace smelt::fuse
