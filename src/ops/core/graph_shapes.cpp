#include "ops/core/graph_shapes.h"

#include <utility>

namespace smelt::ops {
namespace {

thread_local GraphShapes asked = nullptr;

}  // namespace

GraphShapesScope::GraphShapesScope(GraphShapes shapes) : outer_(std::exchange(asked, shapes)) {}
GraphShapesScope::~GraphShapesScope() { asked = outer_; }
GraphShapes GraphShapesScope::innermost() { return asked; }

}  // namespace smelt::ops
