// Before   BatchNormalization whose floats are f64 and others; Attention whose q, k and v are floats of several types
// After    the same in the widest of them, its constants too, between Casts: what the reference computes, and kernels and rewrites know
// Unless   a float is of 8 bits
#include <algorithm>

#include "fuse/match/in_type.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Inputs of the operator that must be of one type.
size_t alike(const Node& n) { return n.is("Attention") ? 3 : n.is("BatchNormalization") ? 5 : 0; }

}  // namespace

Outcome common_type(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const size_t count = std::min(alike(n), n.inputs.size());
  bool differ = false, wide = false;
  for (size_t i = 0; i < count; ++i) {
    if (n.in(i) == ValueId::none) return NotHere{};
    const DType type = g.value(n.in(i)).type;
    if (!is_real(type)) return NotHere{};
    differ = differ || type != g.value(n.in(0)).type;
    wide = wide || type == DType::f64;
  }
  // Kernels and rewrites read parameters of f32 beside an image of 16 bits.
  if (!differ || (n.is("BatchNormalization") && !wide)) return NotHere{};
  return Match{{id}, [id, to = wide ? DType::f64 : DType::f32](Graph& graph) {
                 compute_in(graph, {id}, is_real, to);
                 return id;
               }};
}

}  // namespace smelt::fuse
