// Schemas of operators, and their parameters.
#pragma once

#include <onnx/defs/schema.h>

#include <string>

#include "import/proto.h"

namespace smelt::importer {

/// The schema that an operator has in a version of its domain, made when it is asked for first; null where there is none. ONNX's own
/// registry makes all of them for the first question, some 700, most of which no model has. These live as long as the process.
/// Thread-safe.
const onnx::OpSchema* find_schema(const std::string& op, int version, const std::string& domain);
/// In the newest version.
const onnx::OpSchema* find_schema(const std::string& op, const std::string& domain);
/// The same for ONNX's checker.
const onnx::ISchemaRegistry& schemas();

/// The formal parameter for input or output i of a node; a variadic last parameter stands for all further ones. Null if the
/// operator has none.
inline const onnx::OpSchema::FormalParameter* formal(const std::vector<onnx::OpSchema::FormalParameter>& list, int i) {
  if (list.empty()) return nullptr;
  const size_t last = list.size() - 1, at = static_cast<size_t>(i);
  return at <= last ? &list[at] : list[last].GetOption() == onnx::OpSchema::Variadic ? &list[last] : nullptr;
}

/// Adds the default values of the attributes that a node leaves out.
inline void add_defaults(onnx::NodeProto& n, const onnx::OpSchema& schema) {
  for (const auto& [name, attribute] : schema.attributes())
    if (!attribute.default_value.name().empty() && !find_attribute(n, name)) *n.add_attribute() = attribute.default_value;
}

}  // namespace smelt::importer
