// What a subgraph gives, known before it runs: control flow looks ahead of its bodies with it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// A value as it is known before a run: `value` where it is, too.
struct KnownValue {
  DType type = DType::undefined;
  Shape shape;
  Tensor value;
};

/// What a graph gives for inputs of these types, shapes and, where they are known, values; nothing where its shapes depend on others.
/// Throws Error where they do not fit.
using GraphShapes = std::optional<std::vector<KnownValue>> (*)(const Graph&, std::span<const TensorDesc>);

/// While this lives, operators that this thread runs can ask. The planner knows the answer, and comes after operators.
class GraphShapesScope {
 public:
  explicit GraphShapesScope(GraphShapes shapes);
  ~GraphShapesScope();
  GraphShapesScope(const GraphShapesScope&) = delete;
  /// Null outside of all scopes.
  static GraphShapes innermost();

 private:
  GraphShapes outer_;
};

}  // namespace smelt::ops
