// Parameters of ONNX's operators.
#pragma once

#include <onnx/defs/schema.h>

#include "import/proto.h"

namespace smelt::importer {

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
