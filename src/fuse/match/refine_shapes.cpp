// What becomes known of shapes once constants are folded and nodes are fused: extents that follow from others, and everything
// an operator's own shape rule gives where its inputs' shapes are numbers.
#include "fuse/match/extents.h"
#include "ops/core/operator.h"
#include "smelt/error.h"

namespace smelt::fuse {
namespace {

/// The shape of v where all of its extents are numbers; null otherwise.
const SymShape* static_shape(const Graph& g, ValueId v) {
  const std::optional<SymShape>& shape = g.value(v).shape;
  return shape && is_static(*shape) ? &*shape : nullptr;
}

/// The operator's shape rule, where every input has a static shape.
bool infer_static(Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!ops::find(n.op, n.domain)) return false;
  std::vector<ops::TensorDesc> in(n.inputs.size()), out(n.outputs.size());
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == ValueId::none) continue;
    const SymShape* shape = static_shape(g, n.inputs[i]);
    if (!shape) return false;
    const Value& v = g.value(n.inputs[i]);
    in[i] = {v.type, to_shape(*shape), true, v.is_constant() ? &v.constant : nullptr};
  }
  try {
    ops::infer(n, in, out);
  } catch (const Error&) {  // the rule needs values that are not known, or finds a mistake that running will report
    return false;
  }
  bool gained = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (n.outputs[i] == ValueId::none || !out[i].shape_known || static_shape(g, n.outputs[i])) continue;
    g.set_shape(n.outputs[i], to_sym(out[i].shape));
    gained = true;
  }
  return gained;
}

bool infer_symbolic(Graph& g, ValueId v) {
  const std::optional<SymShape>& before = g.value(v).shape;
  if (!before) return false;
  SymShape shape = *before;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].known() || !is_made_up(shape[i])) continue;
    const Extent e = extent(g, v, static_cast<int>(i));
    if (e.known())
      shape[i] = Dim(e.number);
    else if (!e.symbol.empty())
      shape[i] = Dim(e.symbol);
  }
  if (shape == before) return false;
  g.set_shape(v, shape);
  return true;
}

}  // namespace

int refine_shapes(Graph& g) {
  int gained = 0;
  for (NodeId n : g.topological()) {
    bool unknown = false;
    for (ValueId v : g.node(n).outputs) {
      if (v == ValueId::none || static_shape(g, v)) continue;
      gained += infer_symbolic(g, v);
      unknown = unknown || !static_shape(g, v);
    }
    if (unknown) gained += infer_static(g, n);
  }
  return gained;
}

}  // namespace smelt::fuse
