// Every operator's schema.
#pragma once

#include <vector>

#include "import/microsoft.h"
#include "import/schema.h"

namespace smelt::test {

/// In every version, those of com.microsoft too.
inline std::vector<onnx::OpSchema> all_schemas() {
  std::vector<onnx::OpSchema> all = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  for (const auto& m : importer::microsoft_operators()) all.push_back(*importer::find_schema(m.op, m.domain));
  return all;
}

}  // namespace smelt::test
