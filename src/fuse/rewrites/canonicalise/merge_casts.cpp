// Before   Cast(Cast(x, A), B)
// After    Cast(x, B)
// Unless   A cannot hold every value of x's type: the first Cast rounds, wraps or saturates
#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

struct Precision {
  int significand, exponent;  // bits; for integers the width without the sign
};

std::optional<Precision> precision(DType t) {
  switch (t) {
    case DType::f64: return Precision{53, 11};
    case DType::f32: return Precision{24, 8};
    case DType::f16: return Precision{11, 5};
    case DType::bf16: return Precision{8, 8};
    default: return {};
  }
}

/// True when every number of type `from` is one of type `to`.
bool holds(DType to, DType from) {
  if (to == from) return true;
  const auto wide = precision(to), narrow = precision(from);
  const int width = from == DType::boolean ? 1 : bits(from) - (is_signed(from) ? 1 : 0);
  if (wide && narrow) return wide->significand >= narrow->significand && wide->exponent >= narrow->exponent;
  const bool whole = is_integer(from) || from == DType::boolean;
  if (wide) return whole && width <= wide->significand;
  if (!is_integer(to) || !whole || (is_signed(from) && !is_signed(to))) return false;
  return width <= bits(to) - (is_signed(to) ? 1 : 0);
}

}  // namespace

Outcome merge_casts(const Graph& g, NodeId n) {
  if (!g.node(n).is("Cast")) return NotHere{};
  NodeId first;
  if (!made_by(g, g.node(n).in(0), "Cast", &first)) return NotHere{};
  const ValueId x = g.node(first).in(0);
  const DType from = g.value(x).type, between = g.value(g.node(n).in(0)).type;
  if (!holds(between, from)) return refuse(Reason::wrong_type, first, "{} does not hold every {}", name(between), name(from));
  Match m = become(n, "Cast", {x}, g.node(n).attrs);
  m.nodes = {first, n};
  return m;
}

}  // namespace smelt::fuse
