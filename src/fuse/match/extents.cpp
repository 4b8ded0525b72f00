#include "fuse/match/extents.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "fuse/match/match.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

/// Multiplies a by b; false when the product overflows.
bool multiply(int64_t& a, int64_t b) { return !__builtin_mul_overflow(a, b, &a); }

constexpr int max_depth = 256;       // operators followed from one value, some 80 residual blocks; it bounds the stack
constexpr size_t max_values = 4096;  // elements of a shape being computed; Concat(s, s) doubles them at every step

/// Whether an output has the shape of input 0.
bool keeps_shape(const Node& n, int32_t output) {
  const ops::OutShape shape = ops::facts(n).shape;
  return shape == ops::OutShape::input_all || (shape == ops::OutShape::input && output == 0);
}

/// Answers the questions of one proof. Everything is followed once, since an Add of two branches doubles the ways to what is
/// above it. What max_depth cuts off is remembered too: an answer may then depend on the questions before it, so an Analysis
/// lives for one call from outside, whose questions always come in the same order.
class Analysis {
 public:
  explicit Analysis(const Graph& g) : g_(g) {}
  std::optional<Extents> all(ValueId v);
  Extent one(ValueId v, int axis);
  std::optional<std::vector<Extent>> values(ValueId v);

 private:
  Extent unknown(ValueId v, int axis) const { return {-1, {}, v, axis}; }
  Extent followed(ValueId v, int axis);
  Extent derived(ValueId v, int axis);
  Extent broadcast(const Node& n, size_t skip_last, int from_end, Extent otherwise);
  Extent reshaped(const Node& n, int axis, Extent otherwise);
  Extent matmul(const Node& n, int axis, int rank, Extent otherwise);
  std::optional<std::vector<Extent>> computed_values(NodeId id);
  std::optional<std::vector<Extent>> arithmetic(const Node& n);

  const Graph& g_;
  int depth_ = 0;
  std::map<std::pair<ValueId, int>, Extent> extents_;
  std::map<ValueId, std::optional<std::vector<Extent>>> values_;
};

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

/// The extent `from_end` places from the end of what the node's inputs broadcast to.
Extent Analysis::broadcast(const Node& n, size_t skip_last, int from_end, Extent otherwise) {
  Extent found = Extent::of(1);
  for (ValueId in : n.inputs) {
    int r = rank(g_, in);
    if (in == ValueId::none) continue;
    if (r < 0) return otherwise;
    if (from_end >= r - static_cast<int>(skip_last)) continue;
    Extent e = one(in, r - 1 - static_cast<int>(skip_last) - from_end);
    if (e.is(1) || e == found) continue;
    if (!found.is(1) && !(found.known() != e.known())) return otherwise;  // two unproven extents: either may be 1
    if (found.is(1) || e.known()) found = e;                              // a number above 1 wins over an unproven extent
  }
  return found;
}

Extent Analysis::matmul(const Node& n, int axis, int r, Extent otherwise) {
  int ra = rank(g_, n.in(0)), rb = rank(g_, n.in(1));
  if (ra < 2 || rb < 2) return otherwise;
  if (axis == r - 1) return one(n.in(1), n.get_int("transB", 0) ? rb - 2 : rb - 1);
  if (axis == r - 2) return one(n.in(0), n.get_int("transA", 0) ? ra - 1 : ra - 2);
  Node batch = n;
  batch.inputs.resize(2);
  return broadcast(batch, 2, r - 3 - axis, otherwise);
}

Extent Analysis::reshaped(const Node& n, int axis, Extent otherwise) {
  auto target = values(n.in(1));
  auto from = all(n.in(0));
  if (!target || !from || axis >= static_cast<int>(target->size())) return otherwise;
  auto resolve = [&](size_t i) {
    Extent e = (*target)[i];
    return e.is(0) && !n.get_int("allowzero", 0) && i < from->size() ? (*from)[i] : e;
  };
  Extent e = resolve(static_cast<size_t>(axis));
  if (!(e.is(-1) && e.symbol.empty() && e.value == ValueId::none)) return e;
  // The inferred extent: what is left of the input's once the other extents are taken away.
  Extents left = *from;
  int64_t numbers = 1;
  for (size_t i = 0; i < target->size(); ++i) {
    if (static_cast<int>(i) == axis) continue;
    Extent t = resolve(i);
    if (t.known()) {
      if (!multiply(numbers, t.number)) return otherwise;
    } else if (auto at = std::find(left.begin(), left.end(), t); at != left.end()) {
      left.erase(at);
    } else {
      return otherwise;
    }
  }
  if (numbers < 1) return otherwise;
  Extent symbolic;
  int64_t rest = 1;
  int symbols = 0;
  for (const Extent& l : left) {
    if (l.known()) {
      if (!multiply(rest, l.number)) return otherwise;
    } else {
      symbolic = l;
      ++symbols;
    }
  }
  if (symbols == 0) return rest % numbers == 0 ? Extent::of(rest / numbers) : otherwise;
  return symbols == 1 && rest == numbers ? symbolic : otherwise;
}

Extent Analysis::derived(ValueId v, int axis) {
  Extent otherwise = unknown(v, axis);
  const Value& value = g_.value(v);
  if (value.producer == NodeId::none) return otherwise;
  const Node& n = g_.node(value.producer);
  const int r = rank(g_, v), r0 = n.inputs.empty() ? -1 : rank(g_, n.in(0));
  if (keeps_shape(n, value.output)) return r0 == r ? one(n.in(0), axis) : otherwise;
  if (ops::facts(n).shape == ops::OutShape::broadcast) return broadcast(n, 0, r - 1 - axis, otherwise);
  if (n.is("MatMul") || n.is("MatMul", smelt_domain)) return matmul(n, axis, r, otherwise);
  if (n.is("Gemm") && r0 == 2) return matmul(n, axis, 2, otherwise);
  if (n.is("Attention", smelt_domain)) return axis < 3 ? one(n.in(0), axis) : one(n.in(2), 3);
  if (n.is("Reshape")) return reshaped(n, axis, otherwise);
  if (n.is("Transpose") && r0 == r) {
    auto perm = n.get_ints("perm");
    if (!perm.empty() && static_cast<int>(perm.size()) != r) return otherwise;
    return one(n.in(0), perm.empty() ? r - 1 - axis : static_cast<int>(normalize_axis(perm[static_cast<size_t>(axis)], r)));
  }
  if (n.is("Expand")) {
    auto target = values(n.in(1));
    if (!target || r0 < 0) return otherwise;
    int i = axis - (r - static_cast<int>(target->size())), j = axis - (r - r0);
    Extent to = i >= 0 ? (*target)[static_cast<size_t>(i)] : Extent::of(1), from = j >= 0 ? one(n.in(0), j) : Extent::of(1);
    if (to.is(1)) return from;
    return from.is(1) || from == to || to.known() ? to : otherwise;
  }
  if (n.is("Unsqueeze") || n.is("Squeeze")) {
    auto axes = ints(g_, value.producer, "axes", 1);
    if (!axes || r0 < 0) return otherwise;
    const bool more = n.is("Unsqueeze");
    for (int64_t& a : *axes) a = normalize_axis(a, more ? r : r0);
    std::vector<int> kept;  // axes of the longer shape that the shorter one has
    for (int i = 0; i < std::max(r, r0); ++i)
      if (std::find(axes->begin(), axes->end(), i) == axes->end()) kept.push_back(i);
    if (!more) return static_cast<int>(kept.size()) == r ? one(n.in(0), kept[static_cast<size_t>(axis)]) : otherwise;
    auto at = std::find(kept.begin(), kept.end(), axis);
    return at == kept.end() ? Extent::of(1) : one(n.in(0), static_cast<int>(at - kept.begin()));
  }
  if (n.is("Concat") || n.is("Split")) {
    const int along = static_cast<int>(normalize_axis(n.get_int("axis", 0), r));
    if (axis != along) return r0 == r ? one(n.in(0), axis) : otherwise;
    if (n.is("Split")) {
      if (n.in(1) != ValueId::none) {
        auto parts = values(n.in(1));
        return parts && static_cast<size_t>(value.output) < parts->size() ? (*parts)[static_cast<size_t>(value.output)]
                                                                          : otherwise;
      }
      Extent whole = one(n.in(0), axis);
      const auto parts = static_cast<int64_t>(n.outputs.size());
      return whole.known() && whole.number % parts == 0 ? Extent::of(whole.number / parts) : otherwise;
    }
    int64_t sum = 0;
    for (ValueId in : n.inputs) {
      if (rank(g_, in) != r) return otherwise;
      Extent e = one(in, axis);
      if (!e.known() || __builtin_add_overflow(sum, e.number, &sum)) return otherwise;
    }
    return Extent::of(sum);
  }
  if (n.is("Slice") && r0 == r) {
    auto starts = ints(g_, value.producer, "starts", 1), ends = ints(g_, value.producer, "ends", 2);
    auto axes = ints(g_, value.producer, "axes", 3), steps = ints(g_, value.producer, "steps", 4);
    if (!axes && (n.in(3) != ValueId::none || !starts)) return otherwise;
    if (!axes) {
      axes.emplace();
      for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
    }
    for (size_t i = 0; i < axes->size(); ++i) {
      if (normalize_axis((*axes)[i], r) != axis) continue;
      Extent whole = one(n.in(0), axis);
      // A symbolic end cannot be shown to lie within the whole.
      if (!starts || !ends || i >= starts->size() || i >= ends->size() || (n.in(4) != ValueId::none && !steps)) return otherwise;
      if (steps && (i >= steps->size() || (*steps)[i] != 1)) return otherwise;
      int64_t b = (*starts)[i], e = (*ends)[i];
      if (b == 0 && e >= INT32_MAX) return whole;
      if (!whole.known()) return otherwise;
      auto clamp = [&](int64_t x) { return std::clamp(x < 0 ? x + whole.number : x, int64_t{0}, whole.number); };
      return Extent::of(std::max<int64_t>(0, clamp(e) - clamp(b)));
    }
    return one(n.in(0), axis);
  }
  if (n.is("Gather") && r0 >= 0) {
    const int along = static_cast<int>(normalize_axis(n.get_int("axis", 0), r0)), ri = rank(g_, n.in(1));
    if (ri < 0) return otherwise;
    if (axis < along) return one(n.in(0), axis);
    return axis < along + ri ? one(n.in(1), axis - along) : one(n.in(0), axis - ri + 1);
  }
  if (n.is("GatherElements")) return r == rank(g_, n.in(1)) ? one(n.in(1), axis) : otherwise;
  if (n.is("Range")) {
    auto end = values(n.in(1));
    return is_scalar(g_, n.in(0), 0) && is_scalar(g_, n.in(2), 1) && end && end->size() == 1 ? (*end)[0] : otherwise;
  }
  if ((n.op.rfind("Reduce", 0) == 0) && n.get_int("keepdims", 1) && r0 == r) {
    auto axes = ints(g_, value.producer, "axes", 1);
    if (!axes) return otherwise;
    for (int64_t a : *axes)
      if (normalize_axis(a, r) == axis) return Extent::of(1);
    return axes->empty() ? otherwise : one(n.in(0), axis);
  }
  return otherwise;
}

std::optional<std::vector<Extent>> Analysis::values(ValueId v) {
  if (v == ValueId::none) return {};
  const Value& value = g_.value(v);
  if (value.is_constant()) {
    const Tensor& c = value.constant;
    if (!is_integer(c.type()) || c.rank() > 1 || c.size() > static_cast<int64_t>(max_values)) return {};
    std::vector<Extent> e;
    for (int64_t i : c.to_ints()) e.push_back(Extent::of(i));
    return e;
  }
  if (value.producer == NodeId::none) return {};
  if (auto at = values_.find(v); at != values_.end()) return at->second;
  std::optional<std::vector<Extent>> e;
  if (depth_ < max_depth) {
    ++depth_;
    e = computed_values(value.producer);
    --depth_;
  }
  return values_[v] = e;
}

std::optional<std::vector<Extent>> Analysis::computed_values(NodeId id) {
  const Node& n = g_.node(id);
  if (n.is("Shape")) {
    auto e = all(n.in(0));
    if (!e) return {};
    const auto r = static_cast<int64_t>(e->size());
    auto clamp = [&](int64_t x) { return std::clamp(x < 0 ? x + r : x, int64_t{0}, r); };
    const int64_t b = clamp(n.get_int("start", 0)), end = std::max(b, clamp(n.get_int("end", r)));
    return std::vector<Extent>(e->begin() + b, e->begin() + end);
  }
  if (n.is("Concat")) {
    std::vector<Extent> r;
    for (ValueId in : n.inputs) {
      auto e = values(in);
      if (!e || r.size() + e->size() > max_values) return {};
      r.insert(r.end(), e->begin(), e->end());
    }
    return r;
  }
  if (n.is("Unsqueeze") || n.is("Squeeze") || n.is("Identity") || n.is("Reshape")) {
    // Between a scalar and a vector of one, or between vectors of the same length: the elements stay.
    return rank(g_, n.outputs[0]) <= 1 && rank(g_, n.outputs[0]) >= 0 ? values(n.in(0)) : std::nullopt;
  }
  if (n.is("Cast")) {
    const DType to = g_.value(n.outputs[0]).type;
    return to == DType::i64 || to == DType::i32 ? values(n.in(0)) : std::nullopt;
  }
  if (n.is("Gather")) {
    auto e = values(n.in(0));
    if (!e || !g_.value(n.in(1)).is_constant() || g_.constant(id, 1).size() > static_cast<int64_t>(max_values)) return {};
    std::vector<Extent> r;
    for (int64_t i : g_.constant(id, 1).to_ints()) {
      if (i < 0) i += static_cast<int64_t>(e->size());
      if (i < 0 || i >= static_cast<int64_t>(e->size())) return {};
      r.push_back((*e)[static_cast<size_t>(i)]);
    }
    return r;
  }
  if (n.is("Slice")) {
    auto e = values(n.in(0));
    auto starts = ints(g_, id, "starts", 1), ends = ints(g_, id, "ends", 2), steps = ints(g_, id, "steps", 4);
    if (!e || !starts || !ends || starts->size() != 1 || ends->size() != 1 || (n.in(4) != ValueId::none && !steps)) return {};
    if (steps && (steps->size() != 1 || (*steps)[0] != 1)) return {};
    const auto r = static_cast<int64_t>(e->size());
    auto clamp = [&](int64_t x) { return std::clamp(x < 0 ? std::max(x + r, int64_t{0}) : x, int64_t{0}, r); };
    const int64_t b = clamp((*starts)[0]), end = std::max(b, clamp((*ends)[0]));
    return std::vector<Extent>(e->begin() + b, e->begin() + end);
  }
  if (n.is("Add") || n.is("Sub") || n.is("Mul") || n.is("Div")) return arithmetic(n);
  return {};
}

std::optional<std::vector<Extent>> Analysis::arithmetic(const Node& n) {
  auto a = values(n.in(0)), b = values(n.in(1));
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return {};
  std::vector<Extent> r;
  const size_t count = a->size() == 1 ? b->size() : a->size();  // one element meets any number of them, none too
  for (size_t i = 0; i < count; ++i) {
    const Extent &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
    const bool neutral = y.is(n.is("Mul") || n.is("Div") ? 1 : 0);
    if (neutral)
      r.push_back(x);
    else if (n.is("Mul") && x.is(1))
      r.push_back(y);
    else if (!x.known() || !y.known() || (n.is("Div") && y.number < 1))
      return {};
    else {
      int64_t number = 0;
      const bool overflows = n.is("Add")   ? __builtin_add_overflow(x.number, y.number, &number)
                             : n.is("Sub") ? __builtin_sub_overflow(x.number, y.number, &number)
                             : n.is("Mul") ? __builtin_mul_overflow(x.number, y.number, &number)
                                           : (number = x.number / y.number, false);
      if (overflows) return {};
      r.push_back(Extent::of(number));
    }
  }
  return r;
}

}  // namespace

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
