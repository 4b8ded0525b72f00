// Nodes of older opsets mean the same in the newest one's words.
#include <gmock/gmock.h>

#include "base/error.h"
#include "import/models.h"
#include "import/upgrade.h"

namespace smelt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> ints(const Graph& g, ValueId v) { return g.value(v).constant.to_ints(); }
std::vector<double> numbers(const Graph& g, ValueId v) { return g.value(v).constant.to_doubles(); }
std::string shape(const Graph& g, ValueId v) { return to_string(*g.value(v).shape); }

TEST(Upgrade, axes_become_an_input) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"}) {
    const Graph g =
        import(parse(11, std::string("g (float[2, 3] x) => (float[2] y) { y = ") + op + " <axes = [1], keepdims = 0> (x) }"));
    const Node& n = only(g, op);
    EXPECT_THAT(ints(g, n.in(1)), ElementsAre(1));
    EXPECT_FALSE(n.has("axes"));
    EXPECT_EQ(shape(g, n.out()), "[2]");
  }
  const Graph g = import(
      parse(11, "g (float[2, 1, 3] x) => (float[2, 3, 1] y) { s = Squeeze <axes = [1]> (x) y = Unsqueeze <axes = [-1]> (s) }"));
  EXPECT_THAT(ints(g, only(g, "Squeeze").in(1)), ElementsAre(1));
  EXPECT_THAT(ints(g, only(g, "Unsqueeze").in(1)), ElementsAre(-1));
}

TEST(Upgrade, a_reduction_without_axes_stays_one_over_all) {
  const Graph g = import(parse(11, "g (float[2, 3] x) => (float[1, 1] y) { y = ReduceSum(x) }"));
  EXPECT_EQ(only(g, "ReduceSum").inputs.size(), 1u);
  EXPECT_EQ(shape(g, g.outputs()[0]), "[1, 1]");
}

TEST(Upgrade, clip_limits_become_inputs_of_the_datas_type) {
  const Graph g = import(parse(7, "g (double[2] x) => (double[2] y) { y = Clip <max = 6.0> (x) }"));
  const Node& n = only(g, "Clip");
  EXPECT_EQ(n.in(1), ValueId::none);
  EXPECT_EQ(g.value(n.in(2)).type, DType::f64);
  EXPECT_THAT(numbers(g, n.in(2)), ElementsAre(6));
}

TEST(Upgrade, pad_and_slice_and_top_k) {
  const Graph g = import(parse(9, R"(g (float16[4] x) => (float16[2] v, int64[2] i) {
    p = Pad <pads = [1, 0], value = 2.0> (x) s = Slice <starts = [1], ends = [4]> (p) v, i = TopK <k = 2> (s) })"));
  const Node& pad = only(g, "Pad");
  EXPECT_THAT(ints(g, pad.in(1)), ElementsAre(1, 0));
  EXPECT_EQ(g.value(pad.in(2)).type, DType::f16);
  EXPECT_THAT(numbers(g, pad.in(2)), ElementsAre(2));
  EXPECT_THAT(ints(g, only(g, "Slice").in(2)), ElementsAre(4));
  EXPECT_THAT(ints(g, only(g, "TopK").in(1)), ElementsAre(2));
}

TEST(Upgrade, split_says_its_sizes_or_its_count) {
  const Graph g = import(parse(11,
                               "g (float[6] x) => (float[2] a, float[4] b, float[3] c, float[3] d) { a, b = Split <split = [2, "
                               "4]> (x) c, d = Split(x) }"));
  const auto order = g.topological();
  EXPECT_THAT(ints(g, g.node(order[0]).in(1)), ElementsAre(2, 4));
  EXPECT_EQ(g.node(order[1]).get_int("num_outputs", 0), 2);
}

TEST(Upgrade, softmax_over_the_last_axis_stays_one_node) {
  const Graph g = import(parse(11, "g (float[2, 3] x) => (float[2, 3] y) { y = Softmax(x) }"));
  EXPECT_THAT(ops(g), ElementsAre("Softmax"));
  EXPECT_EQ(only(g, "Softmax").get_int("axis", 0), -1);
}

TEST(Upgrade, softmax_over_several_axes_is_one_of_the_flattened) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const Graph g = import(parse(11, std::string("g (float[N, 3, 4] x) => (float[N, 3, 4] y) { y = ") + op + "(x) }"));
    EXPECT_THAT(ops(g), ::testing::UnorderedElementsAre("Shape", "Flatten", op, "Reshape"));
    EXPECT_EQ(shape(g, only(g, op).out()), "[N, 12]");
    EXPECT_EQ(shape(g, g.outputs()[0]), "[N, 3, 4]");
    for (NodeId n : g.topological()) EXPECT_EQ(g.sources()[static_cast<size_t>(g.node(n).sources.at(0))].op_type, op);
  }
}

TEST(Upgrade, dropout_ratio_becomes_an_input_and_its_mask_keeps_its_type) {
  const Graph g = import(parse(7, "g (float[2] x) => (float[2] y, float[2] m) { y, m = Dropout <ratio = 0.25> (x) }"));
  EXPECT_THAT(numbers(g, only(g, "Dropout").in(1)), ElementsAre(0.25));
  EXPECT_EQ(g.value(only(g, "Dropout").out(1)).type, DType::boolean);
  EXPECT_EQ(g.value(g.find_value("m")).type, DType::f32);
}

TEST(Upgrade, upsample_and_resize_10_become_an_asymmetric_resize) {
  for (const auto& [opset, node] : {std::pair<int, std::string>{7, "Upsample <mode = \"linear\", scales = [1.0, 2.0]> (x)"},
                                    {9, "Upsample <mode = \"linear\"> (x, s)"},
                                    {10, "Resize <mode = \"linear\"> (x, s)"}}) {
    const Graph g = import(parse(opset, "g (float[2, 4] x) => (float[2, 8] y) <float[2] s = {1, 2}> { y = " + node + " }"));
    const Node& n = only(g, "Resize");
    EXPECT_EQ(n.in(1), ValueId::none);
    EXPECT_THAT(numbers(g, n.in(2)), ElementsAre(1, 2));
    EXPECT_EQ(n.get_string("coordinate_transformation_mode", ""), "asymmetric");
    EXPECT_EQ(n.get_string("nearest_mode", ""), "floor");
    EXPECT_EQ(n.get_string("mode", ""), "linear");
    EXPECT_EQ(shape(g, n.out()), "[2, 8]");
  }
}

TEST(Upgrade, nearest_resize_10_rounds_up_along_axes_that_become_shorter) {
  const auto made = [](const std::string& signature, const std::string& scales) {
    return import(parse(10, "g (" + signature + ") <float[2] s = {" + scales + "}> { y = Resize <mode = \"nearest\"> (x, s) }"));
  };
  EXPECT_EQ(only(made("float[5, 4] x) => (float[3, 2] y", "0.6, 0.5"), "Resize").get_string("nearest_mode", ""), "ceil");
  EXPECT_EQ(only(made("float[N, 4] x) => (float[N, 8] y", "1, 2"), "Resize").get_string("nearest_mode", ""), "floor");
  for (const char* signature : {"float[5, 4] x) => (float[10, 2] y", "float[N, M] x) => (float[K, L] y"}) {
    const Graph g = made(signature, "2, 0.5");
    std::vector<std::string> modes;
    for (NodeId n : g.topological())
      if (g.node(n).is("Resize")) modes.push_back(g.node(n).get_string("nearest_mode", ""));
    EXPECT_THAT(modes, ElementsAre("floor", "ceil")) << signature;
  }
}

TEST(Upgrade, resize_11_leaves_out_what_was_empty) {
  const Graph g = import(parse(11, R"(g (float[2, 4] x) => (float[4, 4] y) <float[0] none = {}, int64[2] size = {4, 4}> {
    y = Resize <coordinate_transformation_mode = "align_corners"> (x, none, none, size) })"));
  const Node& n = only(g, "Resize");
  EXPECT_EQ(n.in(1), ValueId::none);
  EXPECT_EQ(n.in(2), ValueId::none);
  EXPECT_THAT(ints(g, n.in(3)), ElementsAre(4, 4));
  EXPECT_EQ(n.get_string("coordinate_transformation_mode", ""), "align_corners");
}

TEST(Upgrade, batch_normalization_with_more_outputs_trains) {
  const std::string head = "g (float[1, 2, 3] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float[1, 2, 3] y) { ";
  const Graph infer = import(parse(9, head + "y = BatchNormalization(x, s, b, m, v) }"));
  EXPECT_EQ(only(infer, "BatchNormalization").get_int("training_mode", 0), 0);
  const Graph train = import(parse(9, head + "y, a, c, d, e = BatchNormalization(x, s, b, m, v) }"));
  EXPECT_EQ(only(train, "BatchNormalization").get_int("training_mode", 0), 1);
  EXPECT_EQ(only(train, "BatchNormalization").outputs.size(), 3u);
  ExitCode code{};
  EXPECT_THAT(error_of(parse(7, head + "y = BatchNormalization <spatial = 0> (x, s, b, m, v) }"), {}, &code),
              HasSubstr("spatial"));
  EXPECT_EQ(code, ExitCode::unsupported);
}

TEST(Upgrade, renamed_operators_and_modes) {
  EXPECT_EQ(
      only(import(parse(9, "g (float[2] x, int64[1] i, float[1] u) => (float[2] y) { y = Scatter(x, i, u) }")), "ScatterElements")
          .inputs.size(),
      3u);
  const Graph grid = import(parse(
      16,
      "g (float[1, 1, 2, 2] x, float[1, 2, 2, 2] i) => (float[1, 1, 2, 2] y) { y = GridSample <mode = \"bicubic\"> (x, i) }"));
  EXPECT_EQ(only(grid, "GridSample").get_string("mode", ""), "cubic");
  const Graph roi =
      import(parse(10, "g (float[1, 1, 4, 4] x, float[1, 4] r, int64[1] b) => (float[1, 1, 1, 1] y) { y = RoiAlign(x, r, b) }"));
  EXPECT_EQ(only(roi, "RoiAlign").get_string("coordinate_transformation_mode", ""), "output_half_pixel");
  const Graph dft = import(parse(17, "g (float[1, 8, 1] x) => (float[1, 8, 2] y) { y = DFT <axis = 1> (x) }"));
  EXPECT_EQ(only(dft, "DFT").inputs.size(), 3u);
}

TEST(Upgrade, scan_8_scans_each_example_of_the_batch) {
  const Graph g = import(parse(8, R"(g (float[B, 2] s, float[B, 5, 2] x) => (float[B, 2] t, float[B, 5, 2] y) {
    t, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] b) => (float[2] c, float[2] d) {
      c = Add(a, b) d = Identity(c) }> ( , s, x) })"));
  const Node& outer = only(g, "Scan");
  EXPECT_EQ(outer.get_int("num_scan_inputs", 0), 2);
  const auto body = outer.get_graph("body");
  EXPECT_EQ(only(*body, "Scan").get_int("num_scan_inputs", 0), 1);
  EXPECT_EQ(shape(*body, body->outputs()[1]), "[5, 2]");
}

TEST(Upgrade, reaches_nodes_of_subgraphs_and_functions) {
  const Graph g = import(parse(R"(<ir_version: 8, opset_import: ["" : 11, "my" : 1]> g (bool c, float[1, 2] x) => (float[2] y) {
      y = If(c) <then_branch = t () => (float[2] p) { p = Squeeze <axes = [0]> (x) },
                 else_branch = e () => (float[2] q) { q = my.s(x) }> }
      <domain: "my", opset_import: ["" : 11]> s (u) => (v) { v = Squeeze <axes = [0]> (u) })"));
  for (const char* branch : {"then_branch", "else_branch"}) {
    const auto body = only(g, "If").get_graph(branch);
    EXPECT_THAT(ints(*body, only(*body, "Squeeze").in(1)), ElementsAre(0));
  }
}

TEST(Upgrade, keeps_names_and_scopes) {
  auto m = parse(11, "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }");
  auto* e = m.mutable_graph()->mutable_node(0)->add_metadata_props();
  e->set_key("pkg.torch.onnx.name_scopes");
  e->set_value("['', 'attention', 'softmax']");
  m.mutable_graph()->mutable_node(0)->set_name("soft");
  const Graph g = import(m);
  EXPECT_EQ(only(g, "Softmax").name, "soft");
  for (NodeId n : g.topological())
    EXPECT_THAT(g.sources()[static_cast<size_t>(g.node(n).sources.at(0))].scopes, ElementsAre("", "attention"));
}

/// Nodes named first, middle and last, of which the middle one has a body with nodes named left and right.
void fill(onnx::GraphProto& g) {
  const auto add = [](onnx::GraphProto& to, const char* name) -> onnx::NodeProto& {
    auto& n = *to.add_node();
    n.set_op_type("Relu");
    n.set_name(name);
    return n;
  };
  add(g, "first");
  auto& a = *add(g, "middle").add_attribute();
  add(*a.mutable_g(), "left");
  add(*a.mutable_g(), "right");
  add(g, "last");
}

std::vector<std::string> names(const onnx::GraphProto& g) {
  std::vector<std::string> out;
  for (const auto& n : g.node()) out.push_back(n.name());
  return out;
}

TEST(RewriteNodes, what_is_not_meant_stays_in_its_place_and_is_not_copied) {
  google::protobuf::Arena arena;
  onnx::GraphProto outside;
  for (onnx::GraphProto* g : {google::protobuf::Arena::CreateMessage<onnx::GraphProto>(&arena), &outside}) {
    fill(*g);
    const onnx::NodeProto *middle = &g->node(1), *last = &g->node(2), *left = &middle->attribute(0).g().node(0);
    importer::rewrite_nodes(
        *g, [](const std::string&) { return nullptr; },
        [](const onnx::NodeProto& n) { return n.name() == "first" || n.name() == "right"; },
        [](onnx::NodeProto n, const importer::TypeOf&) {
          std::vector<onnx::NodeProto> two{n, n};
          two[1].set_name(n.name() + "_too");
          return two;
        });
    EXPECT_THAT(names(*g), ElementsAre("first", "first_too", "middle", "last"));
    const onnx::GraphProto& body = g->node(2).attribute(0).g();
    EXPECT_THAT(names(body), ElementsAre("left", "right", "right_too"));
    EXPECT_EQ(&g->node(2), middle);
    EXPECT_EQ(&g->node(3), last);
    EXPECT_EQ(&body.node(0), left);
  }
}

TEST(RewriteNodes, an_error_leaves_no_node_to_nobody) {  // which a search for leaks sees: valgrind --leak-check=full
  onnx::GraphProto g;
  fill(g);
  EXPECT_THROW(importer::rewrite_nodes(
                   g, [](const std::string&) { return nullptr; }, [](const onnx::NodeProto& n) { return n.name() == "right"; },
                   [](onnx::NodeProto, const importer::TypeOf&) -> std::vector<onnx::NodeProto> { fail("no"); }),
               Error);
  EXPECT_THAT(names(g), ElementsAre("first"));
}

}  // namespace
}  // namespace smelt::testing
