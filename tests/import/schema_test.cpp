#include "import/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "import/import.h"
#include "import/microsoft.h"
#include "import/stages.h"
#include "models.h"
#include "support/paths.h"

namespace smelt::importer {
namespace {

/// What it says of inputs, outputs, attributes and types.
std::string text_of(const onnx::OpSchema& s) {
  std::ostringstream out;
  out << s.domain() << "." << s.Name() << " since " << s.SinceVersion() << "\n" << s;
  for (const auto* list : {&s.inputs(), &s.outputs()})
    for (const auto& f : *list) {
      std::vector<std::string> types;
      for (const auto& t : f.GetTypes()) types.push_back(*t);
      std::ranges::sort(types);
      for (const auto& t : types) out << t << " ";
      out << static_cast<int>(f.GetOption()) << "\n";
    }
  for (const auto& [name, a] : s.attributes()) out << name << a.type << a.required << a.default_value.SerializeAsString() << "\n";
  out << s.has_type_and_shape_inference_function() << s.HasFunction() << s.HasContextDependentFunction() << s.Deprecated();
  return out.str();
}

TEST(Schemas, are_those_of_onnx_in_every_version) {
  const std::vector<onnx::OpSchema> all = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  EXPECT_GT(all.size(), 500U);
  for (const onnx::OpSchema& known : all) {
    const std::string& op = known.Name();
    for (const int version : {0, 1, known.SinceVersion() - 1, known.SinceVersion(), known.SinceVersion() + 1, 1000}) {
      const auto* expected = onnx::OpSchemaRegistry::Schema(op, version, known.domain());
      const auto* found = find_schema(op, version, known.domain());
      if (!expected && find_microsoft_operator(op, known.domain())) continue;  // LayerNormalization before opset 17
      ASSERT_EQ(found == nullptr, expected == nullptr) << known.domain() << "." << op << " in version " << version;
      if (found) {
        EXPECT_EQ(text_of(*found), text_of(*expected));
      }
    }
    EXPECT_EQ(text_of(*find_schema(op, known.domain())), text_of(*onnx::OpSchemaRegistry::Schema(op, known.domain())));
  }
}

TEST(Schemas, of_microsoft_are_found_by_their_domains) {
  EXPECT_GT(microsoft_operators().size(), 40U);
  for (const MicrosoftOperator& m : microsoft_operators()) {
    const auto* found = find_schema(m.op, 1, m.domain);
    ASSERT_NE(found, nullptr) << m.op;
    EXPECT_EQ(found->Name(), m.op);
    EXPECT_EQ(found->domain(), m.domain);
    EXPECT_EQ(find_schema(m.op, 1, m.domain), found);  // made once
    EXPECT_EQ(find_schema(m.op, 0, m.domain), nullptr);
  }
}

TEST(Schemas, that_are_none_are_not_found) {
  EXPECT_EQ(find_schema("Nothing", 20, ""), nullptr);
  EXPECT_EQ(find_schema("", 20, ""), nullptr);
  EXPECT_EQ(find_schema("Relu", 20, "com.microsoft"), nullptr);
  EXPECT_EQ(find_schema("BiasGelu", 20, ""), nullptr);
  EXPECT_EQ(find_schema("Relu", 20, "ai.onnx"), nullptr);  // canonicalise_domains() makes it ""
}

/// 1 where importing every graph had ONNX's own registry make all schemas.
int import_all_graphs() {
  ImportOptions options;
  options.structure_only = true;  // weights are made when examples are filled
  int graphs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples/models"))
    if (entry.path().extension() == ".onnx") graphs += import_model(entry.path(), options).node_count() > 0;
  return graphs > 20 && onnx::OpSchemaRegistry::GetLoadedSchemaVersion() == -1 ? 0 : 1;
}

TEST(Schemas, that_no_model_has_are_not_made) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which no other test asked for all of them
  EXPECT_EXIT(std::exit(import_all_graphs()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace smelt::importer
