#include "fuse/match/extents.h"

#include "base/error.h"
#include "fuse/match/extents_analysis.h"
#include "fuse/match/match.h"

namespace smelt::fuse {

std::optional<Extents> Analysis::all(ValueId v) {
  int r = rank(g_, v);
  if (r < 0) return {};
  Extents e;
  for (int i = 0; i < r; ++i) e.push_back(one(v, i));
  return e;
}

Extent Analysis::one(ValueId v, int axis) {
  const std::optional<SymShape>& shape = g_.value(v).shape;
  if (!shape) fail("extent {} of '{}' was asked for, but its rank is not known", axis, g_.value(v).name);
  axis = static_cast<int>(normalize_axis(axis, static_cast<int64_t>(shape->size())));
  const Dim& d = (*shape)[static_cast<size_t>(axis)];
  if (d.known()) return Extent::of(d.value);
  if (!is_made_up(d)) return {-1, d.symbol, ValueId::none, 0};
  if (auto at = extents_.find({v, axis}); at != extents_.end()) return at->second;
  return extents_[{v, axis}] = followed(v, axis);
}

Extent Analysis::followed(ValueId v, int axis) {
  if (depth_ >= max_depth) return unknown(v, axis);
  const int depth = depth_++;
  Extent e = unknown(v, axis);
  try {
    e = derived(v, axis);
  } catch (const Error&) {  // a node that does not fit its inputs, an axis beyond the rank: nothing follows from it
  }
  depth_ = depth;
  return e;
}

bool is_made_up(const Dim& d) { return d.symbol.empty() || d.symbol.rfind("unk__", 0) == 0; }

Extent extent(const Graph& g, ValueId v, int axis) { return Analysis(g).one(v, axis); }
std::optional<Extents> extents(const Graph& g, ValueId v) { return Analysis(g).all(v); }
std::optional<std::vector<Extent>> shape_values(const Graph& g, ValueId v) { return Analysis(g).values(v); }

bool same_shape(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  Analysis of(g);
  auto ea = of.all(a), eb = of.all(b);
  return ea && eb && *ea == *eb;
}

bool broadcasts_to(const Extents& from, const Extents& to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const Extent &f = from[from.size() - 1 - i], &t = to[to.size() - 1 - i];
    if (!f.is(1) && f != t) return false;
  }
  return true;
}

bool broadcasts_to(const Graph& g, ValueId v, ValueId to) {
  Analysis of(g);
  auto ef = of.all(v), et = of.all(to);
  return ef && et && broadcasts_to(*ef, *et);
}

std::string to_string(const Extents& e) {
  std::string s = "[";
  for (const Extent& x : e) {
    if (s.size() > 1) s += ", ";
    s += x.known() ? std::to_string(x.number) : x.symbol.empty() ? "?" : x.symbol;
  }
  return s + "]";
}

}  // namespace smelt::fuse
