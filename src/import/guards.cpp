// ONNX's inference functions that follow a null pointer where the type of an input is not known. Those of the other operators
// throw.
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <mutex>

#include "import/stages.h"

namespace smelt::importer {

namespace {

struct Guarded {
  const char *op, *domain;
  int version;
};

// Every operator and version was tried with every input's type missing in turn.
constexpr Guarded guarded[] = {
    {"DictVectorizer", "ai.onnx.ml", 1}, {"LabelEncoder", "ai.onnx.ml", 1}, {"RegexFullMatch", "", 20}};

}  // namespace

void guard_inference() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const auto& [op, domain, version] : guarded) {
      const auto* found = onnx::OpSchemaRegistry::Schema(op, version, domain);
      if (!found || found->SinceVersion() != version) continue;
      onnx::OpSchema schema = *found;
      schema.TypeAndShapeInferenceFunction([infer = found->GetTypeAndShapeInferenceFunction()](onnx::InferenceContext& c) {
        if (!c.getInputType(0)) fail_type_inference("the type of input 0 is not known");
        infer(c);
      });
      onnx::DeregisterSchema(op, version, domain);
      onnx::RegisterSchema(std::move(schema), 0, true, true);
    }
  });
}

}  // namespace smelt::importer
