// Files that are wrong: one clear line and the right exit code, whatever the damage.
#include <gmock/gmock.h>

#include <random>

#include "import/models.h"

namespace smelt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

onnx::ModelProto relu() {
  return parse(20, "g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w) y = Relu(a) }");
}

void make_external(onnx::TensorProto& t, const std::string& location, const std::string& offset = "",
                   const std::string& length = "") {
  t.clear_float_data();
  t.clear_raw_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"location", location}, {"offset", offset}, {"length", length}}) {
    if (value.empty() && key != "location") continue;
    auto* e = t.add_external_data();
    e->set_key(key);
    e->set_value(value);
  }
}

std::string error_of_file(const std::filesystem::path& path, ImportOptions options = {}) {
  return smelt::error_of([&] { import_model(path, options); });
}

TEST(BadInput, every_truncation_is_an_error_or_a_valid_graph) {
  const std::string bytes = relu().SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
    try {
      verify(import_model({p, n}, "cut.onnx"));
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("cut.onnx: "));
      EXPECT_THAT(std::string(e.what()), Not(HasSubstr("\n")));
    }
  }
}

TEST(BadInput, every_flipped_bit_is_an_error_or_a_valid_graph) {
  const std::string good = relu().SerializeAsString();
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bytes = good;
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << (i % 8)));
    try {
      verify(import_model({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "flipped.onnx"));
    } catch (const Error& e) {
      EXPECT_THAT(std::string(e.what()), Not(HasSubstr("\n")));
    }
  }
}

TEST(BadInput, says_what_is_not_a_model) {
  Folder folder;
  EXPECT_THAT(error_of_file(folder.write("empty.onnx", "")), HasSubstr("empty.onnx"));
  EXPECT_THAT(error_of_file(folder.write("text.onnx", "this is no model")), HasSubstr("not an ONNX model"));
  EXPECT_THAT(error_of_file(folder / "none.onnx"), HasSubstr("none.onnx"));
}

TEST(BadInput, names_what_is_not_in_order_or_dangling) {
  auto cycle = relu();
  cycle.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_THAT(error_of(cycle), HasSubstr("'y'"));
  auto dangling = relu();
  dangling.mutable_graph()->mutable_node(1)->set_input(0, "nobody");
  EXPECT_THAT(error_of(dangling), HasSubstr("'nobody'"));
  auto output = relu();
  output.mutable_graph()->mutable_output(0)->set_name("nothing");
  EXPECT_THAT(error_of(output), HasSubstr("'nothing'"));
  auto twice = relu();
  twice.mutable_graph()->mutable_node(1)->set_output(0, "a");
  EXPECT_THAT(error_of(twice), HasSubstr("'a'"));
}

TEST(BadInput, unchecked_models_do_no_harm_either) {
  ImportOptions options;
  options.check = false;
  auto cycle = relu();
  cycle.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_THAT(error_of(cycle, options), HasSubstr("'y'"));
  auto twice = relu();
  twice.mutable_graph()->mutable_node(1)->set_output(0, "a");
  EXPECT_NE(error_of(twice, options), "");
}

TEST(BadInput, types_that_do_not_fit) {
  EXPECT_THAT(error_of(parse(20, "g (float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }")),
              HasSubstr("types and shapes do not fit"));
  EXPECT_THAT(error_of(parse(20, "g (float[2, 3] x, float[4, 5] z) => (float[2, 5] y) { y = MatMul(x, z) }")),
              HasSubstr("MatMul"));
}

TEST(BadInput, opsets_out_of_range_are_unsupported) {
  ExitCode code{};
  EXPECT_THAT(error_of(parse(5, "g (float[2] x) => (float[2] y) { y = Relu(x) }"), {}, &code),
              HasSubstr("opset 5, expected 6 to "));
  EXPECT_EQ(code, ExitCode::unsupported);
  EXPECT_THAT(error_of(parse(999, "g (float[2] x) => (float[2] y) { y = Relu(x) }"), {}, &code), HasSubstr("opset 999"));
  EXPECT_EQ(code, ExitCode::unsupported);
}

TEST(BadInput, dims_that_are_negative_or_overflow) {
  auto m = relu();
  m.mutable_graph()->mutable_initializer(0)->set_dims(0, -3);
  EXPECT_THAT(error_of(m), HasSubstr("negative"));
  m = relu();
  m.mutable_graph()->mutable_initializer(0)->add_dims(INT64_MAX / 2);
  EXPECT_THAT(error_of(m), HasSubstr("overflows"));
  m = relu();
  m.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 40);
  EXPECT_THAT(error_of(m), HasSubstr("needs 1099511627776 entries"));
  m = relu();
  m.mutable_graph()->mutable_initializer(0)->set_data_type(99);
  EXPECT_THAT(error_of(m), HasSubstr("99"));
}

TEST(BadInput, data_of_the_wrong_length) {
  auto m = relu();
  m.mutable_graph()->mutable_initializer(0)->clear_float_data();
  EXPECT_NE(error_of(m), "");
  m.mutable_graph()->mutable_initializer(0)->set_raw_data("12345678901");
  EXPECT_THAT(error_of(m), HasSubstr("needs 12 bytes of raw_data, found 11"));
  m.mutable_graph()->mutable_initializer(0)->set_raw_data("1234567890123");
  EXPECT_THAT(error_of(m), HasSubstr("found 13"));
}

TEST(BadInput, switches_that_are_neither_0_nor_1) {
  const auto with = [](const std::string& value) {
    return error_of(parse(13, "g (float[2, 3] x) => (float[M] y) { y = ArgMax <keepdims = " + value + "> (x) }"));
  };
  EXPECT_THAT(with("5"), HasSubstr("keepdims is 5, expected 0 or 1"));
  EXPECT_THAT(with("-1"), HasSubstr("keepdims is -1, expected 0 or 1"));
}

TEST(BadInput, versions_of_domains_that_there_are_not) {
  for (const int64_t version : {int64_t{0}, int64_t{-1}}) {
    auto m = relu();
    for (auto& o : *m.mutable_opset_import())
      if (o.domain() == "com.microsoft") o.set_version(version);
    EXPECT_THAT(error_of(m), HasSubstr("of the domain 'com.microsoft', expected 1 or more"));
  }
}

TEST(BadInput, functions_that_are_there_twice) {
  auto m = relu();
  for (int i = 0; i < 2; ++i) {
    auto* f = m.add_functions();
    f->set_domain("own");
    f->set_name("twice");
  }
  EXPECT_THAT(error_of(m), HasSubstr("the function own:twice is there twice"));
}

class External : public ::testing::Test {
 protected:
  std::string error(const std::string& location, const std::string& offset = "", const std::string& length = "") {
    auto m = relu();
    make_external(*m.mutable_graph()->mutable_initializer(0), location, offset, length);
    return error_of_file(folder.write("m.onnx", m.SerializeAsString()));
  }
  Folder folder;
};

TEST_F(External, data_is_viewed_not_copied) {
  auto m = parse(20, "g (float[1000] x) => (float[1000] y) <float[1000] w = {1}> { y = Add(x, w) }");
  make_external(*m.mutable_graph()->mutable_initializer(0), "w.data", "4096", "4000");
  folder.write("w.data", std::string(4096, 'a') + std::string(4000, '\0'));
  const Graph g = import_model(folder.write("m.onnx", m.SerializeAsString()));
  EXPECT_EQ(g.value(g.find_value("w")).constant.data<float>()[999], 0.f);
  ASSERT_EQ(g.model.data.size(), 1u);
  EXPECT_EQ(g.model.data[0].bytes.get(), g.value(g.find_value("w")).constant.raw());
  EXPECT_EQ(g.model.data[0].file, "w.data");
  EXPECT_EQ(g.model.data[0].offset, 4096);
}

TEST_F(External, small_tensors_come_through_whatever_their_alignment) {
  folder.write("w.data", std::string("x") + std::string(12, '\0'));
  EXPECT_EQ(error("w.data", "1", "12"), "");
}

TEST_F(External, a_model_of_bytes_has_none_unless_a_folder_is_named) {
  auto m = relu();
  make_external(*m.mutable_graph()->mutable_initializer(0), "w.data");
  folder.write("w.data", std::string(12, '\0'));
  const std::string model = m.SerializeAsString();
  const std::span bytes(reinterpret_cast<const uint8_t*>(model.data()), model.size());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());  // where it would be read from, were the working directory the folder
  EXPECT_THAT(smelt::error_of([&] { import_model(bytes, "m"); }), HasSubstr("has no folder"));
  ImportOptions options;
  options.structure_only = true;
  EXPECT_EQ(smelt::error_of([&] { import_model(bytes, "m", options); }), "");
  options.structure_only = false;
  options.folder = folder.path();
  EXPECT_EQ(smelt::error_of([&] { import_model(bytes, "m", options); }), "");
  EXPECT_EQ(smelt::error_of([&] {
              folder.write("bare.onnx", model);
              import_model("bare.onnx");
            }),
            "");
  std::filesystem::current_path(before);
}

TEST_F(External, locations_stay_in_the_folder) {
  std::ofstream(folder.path().parent_path() / "smelt_outside.data") << std::string(12, 'x');
  EXPECT_THAT(error("../smelt_outside.data"), HasSubstr("expected a file in the model's folder"));
  EXPECT_THAT(error("sub/../../smelt_outside.data"), HasSubstr("expected a file in the model's folder"));
  EXPECT_THAT(error((folder.path().parent_path() / "smelt_outside.data").string()),
              HasSubstr("expected a file in the model's folder"));
  std::filesystem::create_symlink(folder.path().parent_path() / "smelt_outside.data", folder / "link.data");
  EXPECT_THAT(error("link.data"), HasSubstr("link that leaves"));
  std::filesystem::create_directory_symlink(folder.path().parent_path(), folder / "up");
  EXPECT_THAT(error("up/smelt_outside.data"), HasSubstr("link that leaves"));
  EXPECT_THAT(error(""), HasSubstr("expected a file name"));
  EXPECT_THAT(error("."), Not(::testing::Eq("")));
  std::filesystem::remove(folder.path().parent_path() / "smelt_outside.data");
}

TEST_F(External, offsets_and_lengths_fit_the_file_and_the_shape) {
  folder.write("w.data", std::string(16, '\0'));
  EXPECT_EQ(error("w.data", "4", "12"), "");
  EXPECT_THAT(error("w.data", "5", "12"), HasSubstr("beyond the end"));
  EXPECT_THAT(error("w.data", "9223372036854775807", "12"), HasSubstr("beyond the end"));
  EXPECT_THAT(error("w.data", "0", "11"), HasSubstr("needs 12 bytes, its external data has 11"));
  EXPECT_THAT(error("w.data", "-1"), HasSubstr("offset is '-1'"));
  EXPECT_THAT(error("w.data", "0", "1e3"), HasSubstr("length is '1e3'"));
}

TEST_F(External, a_missing_file_is_an_error_unless_only_the_structure_is_wanted) {
  EXPECT_THAT(error("gone.data"), HasSubstr("gone.data' is missing"));
  auto m = parse(20, "g (float[1000] x) => (float[1000] y) <float[1000] w = {1}> { y = Add(x, w) }");
  auto& w = *m.mutable_graph()->mutable_initializer(0);
  make_external(w, "gone.data");
  const auto path = folder.write("m.onnx", m.SerializeAsString());
  ImportOptions options;
  options.structure_only = true;
  const Graph g = import_model(path, options);
  EXPECT_EQ(g.value(g.find_value("w")).constant.shape(), (Shape{1000}));
  EXPECT_EQ(g.value(g.find_value("w")).constant.data<float>()[7], 0.f);
}

TEST(BadInput, functions_that_grow_exponentially_are_stopped) {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f0(x) })";
  for (int i = 0; i < 40; ++i)
    text += "<domain: \"my\", opset_import: [\"\" : 20, \"my\" : 1]> f" + std::to_string(i) + " (u) => (v) { a = my.f" +
            std::to_string(i + 1) + "(u) v = my.f" + std::to_string(i + 1) + "(a) }";
  text += "<domain: \"my\", opset_import: [\"\" : 20]> f40 (u) => (v) { v = Neg(u) }";
  ImportOptions options;
  options.max_nodes = 10'000;
  EXPECT_THAT(error_of(parse(text), options), HasSubstr("more than 10000 nodes"));
}

/// Each calls the next one.
onnx::ModelProto functions_in_a_row(int count) {
  auto m = parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f0(x) })");
  for (int i = 0; i < count; ++i) {
    auto& f = *m.add_functions();
    f.set_domain("my");
    f.set_name("f" + std::to_string(i));
    f.add_input("u");
    f.add_output("v");
    f.add_opset_import()->set_version(20);
    auto& own = *f.add_opset_import();
    own.set_domain("my");
    own.set_version(1);
    auto& call = *f.add_node();
    call.set_domain("my");
    call.set_op_type("f" + std::to_string(i + 1));
    call.add_input("u");
    call.add_output("v");
  }
  m.mutable_functions(count - 1)->mutable_node(0)->set_domain("");
  m.mutable_functions(count - 1)->mutable_node(0)->set_op_type("Neg");
  return m;
}

TEST(BadInput, functions_that_call_each_other_deeper_than_a_stack_are_refused) {
  EXPECT_NE(error_of(functions_in_a_row(9'999)), "");
  ImportOptions unchecked;
  unchecked.check = false;
  EXPECT_THAT(error_of(functions_in_a_row(9'999), unchecked), HasSubstr("deep"));
}

TEST(BadInput, more_functions_than_a_model_has_are_refused_before_they_are_read) {
  EXPECT_THAT(error_of(functions_in_a_row(100'000)), HasSubstr("100000 functions"));
}

TEST(BadInput, recursive_functions_are_refused) {
  EXPECT_NE(error_of(parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f(x) }
    <domain: "my", opset_import: ["" : 20, "my" : 1]> f (u) => (v) { v = my.f(u) })")),
            "");
}

TEST(BadInput, functions_that_call_themselves_from_a_subgraph_are_refused_unchecked_too) {
  ImportOptions options;
  options.check = false;
  EXPECT_THAT(
      error_of(
          parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g (float[2] x, bool c) => (float[2] y) { y = my.f(x, c) }
    <domain: "my", opset_import: ["" : 20, "my" : 1]> f (u, c) => (v) {
      v = If(c) <then_branch = t () => (float[2] p) { p = my.f(u, c) }, else_branch = e () => (float[2] q) { q = Neg(u) }> })"),
          options),
      HasSubstr("deep"));
}

TEST(BadInput, inputs_that_a_call_or_a_list_leaves_out) {
  EXPECT_THAT(error_of(parse(R"(<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f(x) }
    <domain: "my", opset_import: ["" : 20]> f (u, w) => (v) { v = Add(u, w) })")),
              HasSubstr("input 1 (B) is left out"));
  EXPECT_THAT(error_of(parse(20, "g (float[2] x) => (float[4] y) { y = Concat <axis = 0> (x, , x) }")),
              HasSubstr("input 1 (inputs) is left out"));
  EXPECT_EQ(error_of(parse(20, "g (float[2] x, float m) => (float[2] y) { y = Clip(x, , m) }")), "");
}

TEST(BadInput, vectors_that_inference_would_follow_element_by_element) {
  // A terabyte of entries in ONNX's data propagation, from a model of 200 bytes.
  const Graph g = import(
      parse(20, "g (float x) => (float[N] y) <int64[1] n = {1099511627776}> { big = ConstantOfShape(n) y = Add(big, x) }"));
  EXPECT_EQ(g.value(g.outputs()[0]).shape, (SymShape{int64_t{1} << 40}));
  EXPECT_NO_THROW(import(parse(20, "g (float[1099511627776] x) => (float[1099511627776] y) { y = Add(x, x) }")));
}

TEST(BadInput, more_parts_than_there_are_outputs) {
  EXPECT_THAT(error_of(parse(20, "g (float[8] x) => (float[N] y) { y = Split <num_outputs = 1099511627776> (x) }")),
              HasSubstr("there are 1 outputs"));
}

TEST(BadInput, deep_nesting_is_refused) {
  auto m = parse(20, "g (bool c, float[2] x) => (float[2] y) { y = Relu(x) }");
  for (int i = 0; i < 20; ++i) {
    onnx::NodeProto n;
    n.set_op_type("If");
    n.add_input("c");
    n.add_output(i == 19 ? "y" : "y" + std::to_string(i));
    for (const char* branch : {"then_branch", "else_branch"}) {
      auto* a = n.add_attribute();
      a->set_name(branch);
      a->set_type(onnx::AttributeProto::GRAPH);
      a->mutable_g()->set_name("b");
      if (std::string(branch) == "then_branch") {
        *a->mutable_g()->add_node() = m.graph().node(0);
      } else {
        auto* id = a->mutable_g()->add_node();
        id->set_op_type("Relu");
        id->add_input("x");
        id->add_output("e" + std::to_string(i));
      }
      a->mutable_g()->add_output()->set_name(a->g().node(0).output(0));
    }
    *m.mutable_graph()->mutable_node(0) = n;
  }
  EXPECT_THAT(error_of(m), HasSubstr("nested"));
}

TEST(BadInput, unknown_operators_are_listed_beside_nodes_without_the_inputs_they_need) {
  const auto loop = parse(20,
                          "g (int64 n) => (float[2] y, float[2] z) { z = Nonsense(n)"
                          " y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)"
                          " { d = Identity(c) t = Add(s, s) }> (n) }");
  EXPECT_THAT(error_of(loop), HasSubstr("Nonsense"));
  const auto quantize = parse(20,
                              "g (float x) => (float[2] y, float[2] z)"
                              " { z = Nonsense(x) y = com.microsoft.QuantizeLinear(x) }");
  EXPECT_THAT(error_of(quantize), HasSubstr("Nonsense"));
}

TEST(BadInput, types_and_shapes_of_com_microsoft_operators_fit_each_other) {
  const auto gemm = [](const std::string& w) {
    return error_of(parse(20, "g (float[4, 8] x, " + w + " w) => (float[4, 6] y) { y = com.microsoft.FusedGemm(x, w) }"));
  };
  EXPECT_EQ(gemm("float[8, 6]"), "");
  EXPECT_EQ(gemm("float[K, L]"), "");
  EXPECT_THAT(gemm("float16[8, 6]"), HasSubstr("types and shapes do not fit"));
  EXPECT_THAT(gemm("float[7, 6]"), HasSubstr("extents 8 and 7 differ"));
  EXPECT_THAT(gemm("float[1, 8, 6]"), HasSubstr("both factors have to be matrices"));
  const auto add = [](const std::string& zero) {
    return error_of(parse(20, "g (uint8[2] a, float s, uint8 za, uint8[2] b, " + zero +
                                  " zb, uint8 zc) => (uint8[2] y)"
                                  " { y = com.microsoft.QLinearAdd(a, s, za, b, s, zb, s, zc) }"));
  };
  EXPECT_EQ(add("uint8"), "");
  EXPECT_THAT(add("int8"), HasSubstr("types and shapes do not fit"));
  const auto norm = [](const std::string& gamma) {
    return error_of(parse(20, "g (float[2, 3, 8] x, " + gamma +
                                  " w) => (float[2, 3, 8] y)"
                                  " { y = com.microsoft.SkipSimplifiedLayerNormalization(x, x, w) }"));
  };
  EXPECT_EQ(norm("float[8]"), "");
  EXPECT_THAT(norm("float[4]"), HasSubstr("extents 8 and 4 differ"));
}

TEST(BadInput, names_that_are_no_utf8_are_read_without_a_word) {
  onnx::ModelProto m = relu();
  m.mutable_graph()->mutable_node(0)->set_name("\xff\xfe");
  ::testing::internal::CaptureStderr();
  const Graph g = import(m);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(g.node(g.topological().front()).name, "\xff\xfe");
}

}  // namespace
}  // namespace smelt::testing
