// Parameters of ONNX's operators.
#pragma once

#include <onnx/defs/schema.h>

namespace smelt::importer {

/// The formal parameter that input or output i of a node stands for, the last one going on where it is variadic; null where the
/// operator has none.
inline const onnx::OpSchema::FormalParameter* formal(const std::vector<onnx::OpSchema::FormalParameter>& list, int i) {
  if (list.empty()) return nullptr;
  const size_t last = list.size() - 1, at = static_cast<size_t>(i);
  return at <= last ? &list[at] : list[last].GetOption() == onnx::OpSchema::Variadic ? &list[last] : nullptr;
}

}  // namespace smelt::importer
