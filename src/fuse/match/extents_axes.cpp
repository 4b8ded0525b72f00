#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "fuse/match/extents_analysis.h"
#include "fuse/match/match.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

/// Multiplies a by b; false when the product overflows.
bool multiply(int64_t& a, int64_t b) { return !__builtin_mul_overflow(a, b, &a); }

/// Whether an output has the shape of input 0.
bool keeps_shape(const Node& n, int32_t output) {
  const ops::OutShape shape = ops::facts(n).shape;
  return shape == ops::OutShape::input_all || (shape == ops::OutShape::input && output == 0);
}

/// What is left of an input's extents once those of the target other than the inferred one, `axis`, are taken away.
Extent inferred(const Extents& from, const Extents& target, size_t axis, const Extent& otherwise) {
  Extents left = from;
  int64_t numbers = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (i == axis) continue;
    if (target[i].known()) {
      if (!multiply(numbers, target[i].number)) return otherwise;
    } else if (const auto at = std::find(left.begin(), left.end(), target[i]); at != left.end()) {
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

}  // namespace

struct Analysis::Rule {
  std::string_view op, domain;
  Extent (Analysis::*of)(const Asked& a);
};

const Analysis::Rule Analysis::rules[] = {
    {"MatMul", "", &Analysis::matmul},   {"MatMul", smelt_domain, &Analysis::matmul},
    {"Gemm", "", &Analysis::matmul},     {"Attention", smelt_domain, &Analysis::attention},
    {"Reshape", "", &Analysis::reshape}, {"Transpose", "", &Analysis::transpose},
    {"Expand", "", &Analysis::expand},   {"Unsqueeze", "", &Analysis::squeeze},
    {"Squeeze", "", &Analysis::squeeze}, {"Concat", "", &Analysis::concat},
    {"Split", "", &Analysis::split},     {"Slice", "", &Analysis::slice},
    {"Gather", "", &Analysis::gather},   {"GatherElements", "", &Analysis::gather_elements},
    {"Range", "", &Analysis::range},     {"ConstantOfShape", "", &Analysis::filled},
};

Extent Analysis::derived(ValueId v, int axis) {
  const Value& value = g_.value(v);
  if (value.producer == NodeId::none) return unknown(v, axis);
  const Node& n = g_.node(value.producer);
  const Asked a{v, value.producer, n, axis, rank(g_, v), n.inputs.empty() ? -1 : rank(g_, n.in(0)), unknown(v, axis)};
  if (keeps_shape(n, value.output)) return a.rank0 == a.rank ? one(n.in(0), axis) : a.unknown;
  if (ops::facts(n).shape == ops::OutShape::broadcast) return broadcast(a, 0, a.rank - 1 - axis);
  for (const Rule& rule : rules)
    if (n.is(rule.op, rule.domain)) return (this->*rule.of)(a);
  return n.op.starts_with("Reduce") ? reduction(a) : a.unknown;
}

/// The extent `from_end` places from the end of what the node's inputs broadcast to.
Extent Analysis::broadcast(const Asked& a, size_t skip_last, int from_end) {
  Extent found = Extent::of(1);
  for (ValueId in : a.n.inputs) {
    int r = rank(g_, in);
    if (in == ValueId::none) continue;
    if (r < 0) return a.unknown;
    if (from_end >= r - static_cast<int>(skip_last)) continue;
    Extent e = one(in, r - 1 - static_cast<int>(skip_last) - from_end);
    if (e.is(1) || e == found) continue;
    if (!found.is(1) && !(found.known() != e.known())) return a.unknown;  // two unproven extents: either may be 1
    if (found.is(1) || e.known()) found = e;                              // a number above 1 wins over an unproven extent
  }
  return found;
}

Extent Analysis::matmul(const Asked& a) {
  const Node& n = a.n;
  const int ra = rank(g_, n.in(0)), rb = rank(g_, n.in(1));
  if (ra < 2 || rb < 2 || (n.is("Gemm") && ra != 2)) return a.unknown;
  if (a.axis == a.rank - 1) return one(n.in(1), n.get_int("transB", 0) ? rb - 2 : rb - 1);
  if (a.axis == a.rank - 2) return one(n.in(0), n.get_int("transA", 0) ? ra - 1 : ra - 2);
  Node batch = n;
  batch.inputs.resize(2);
  return broadcast({a.v, a.id, batch, a.axis, a.rank, a.rank0, a.unknown}, 2, a.rank - 3 - a.axis);
}

Extent Analysis::attention(const Asked& a) { return a.axis < 3 ? one(a.n.in(0), a.axis) : one(a.n.in(2), 3); }

Extent Analysis::reshape(const Asked& a) {
  auto target = values(a.n.in(1));
  const auto from = all(a.n.in(0));
  const auto axis = static_cast<size_t>(a.axis);
  if (!target || !from || axis >= target->size()) return a.unknown;
  const bool zero_copies = !a.n.get_int("allowzero", 0);
  for (size_t i = 0; i < target->size(); ++i)
    if ((*target)[i].is(0) && zero_copies && i < from->size()) (*target)[i] = (*from)[i];
  const Extent& e = (*target)[axis];
  const bool is_inferred = e.is(-1) && e.symbol.empty() && e.value == ValueId::none;
  return is_inferred ? inferred(*from, *target, axis, a.unknown) : e;
}

Extent Analysis::transpose(const Asked& a) {
  if (a.rank0 != a.rank) return a.unknown;
  const auto perm = a.n.get_ints("perm");
  if (perm.empty()) return one(a.n.in(0), a.rank - 1 - a.axis);
  if (static_cast<int>(perm.size()) != a.rank) return a.unknown;
  return one(a.n.in(0), static_cast<int>(normalize_axis(perm[static_cast<size_t>(a.axis)], a.rank)));
}

Extent Analysis::expand(const Asked& a) {
  const auto target = values(a.n.in(1));
  if (!target || a.rank0 < 0) return a.unknown;
  const int i = a.axis - (a.rank - static_cast<int>(target->size())), j = a.axis - (a.rank - a.rank0);
  Extent to = i >= 0 ? (*target)[static_cast<size_t>(i)] : Extent::of(1), from = j >= 0 ? one(a.n.in(0), j) : Extent::of(1);
  if (to.is(1)) return from;
  return from.is(1) || from == to || to.known() ? to : a.unknown;
}

Extent Analysis::squeeze(const Asked& a) {
  auto axes = ints(g_, a.id, "axes", 1);
  if (!axes || a.rank0 < 0) return a.unknown;
  const bool more = a.n.is("Unsqueeze");
  for (int64_t& x : *axes) x = normalize_axis(x, more ? a.rank : a.rank0);
  std::vector<int> kept;  // axes of the longer shape that the shorter one has
  for (int i = 0; i < std::max(a.rank, a.rank0); ++i)
    if (std::find(axes->begin(), axes->end(), i) == axes->end()) kept.push_back(i);
  if (!more) return static_cast<int>(kept.size()) == a.rank ? one(a.n.in(0), kept[static_cast<size_t>(a.axis)]) : a.unknown;
  const auto at = std::find(kept.begin(), kept.end(), a.axis);
  return at == kept.end() ? Extent::of(1) : one(a.n.in(0), static_cast<int>(at - kept.begin()));
}

Extent Analysis::concat(const Asked& a) {
  if (a.axis != normalize_axis(a.n.get_int("axis", 0), a.rank)) return a.rank0 == a.rank ? one(a.n.in(0), a.axis) : a.unknown;
  int64_t sum = 0;
  for (ValueId in : a.n.inputs) {
    if (rank(g_, in) != a.rank) return a.unknown;
    const Extent e = one(in, a.axis);
    if (!e.known() || __builtin_add_overflow(sum, e.number, &sum)) return a.unknown;
  }
  return Extent::of(sum);
}

Extent Analysis::split(const Asked& a) {
  if (a.axis != normalize_axis(a.n.get_int("axis", 0), a.rank)) return a.rank0 == a.rank ? one(a.n.in(0), a.axis) : a.unknown;
  if (a.n.in(1) != ValueId::none) {
    const auto parts = values(a.n.in(1));
    const auto output = static_cast<size_t>(g_.value(a.v).output);
    return parts && output < parts->size() ? (*parts)[output] : a.unknown;
  }
  const Extent whole = one(a.n.in(0), a.axis);
  const auto parts = static_cast<int64_t>(a.n.outputs.size());
  return whole.known() && whole.number % parts == 0 ? Extent::of(whole.number / parts) : a.unknown;
}

Extent Analysis::slice(const Asked& a) {
  if (a.rank0 != a.rank) return a.unknown;
  const auto starts = ints(g_, a.id, "starts", 1), ends = ints(g_, a.id, "ends", 2), steps = ints(g_, a.id, "steps", 4);
  auto axes = ints(g_, a.id, "axes", 3);
  if (!axes && (a.n.in(3) != ValueId::none || !starts)) return a.unknown;
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < axes->size(); ++i) {
    if (normalize_axis((*axes)[i], a.rank) != a.axis) continue;
    Extent whole = one(a.n.in(0), a.axis);
    // A symbolic end cannot be shown to lie within the whole.
    if (!starts || !ends || i >= starts->size() || i >= ends->size() || (a.n.in(4) != ValueId::none && !steps)) return a.unknown;
    if (steps && (i >= steps->size() || (*steps)[i] != 1)) return a.unknown;
    const int64_t b = (*starts)[i], e = (*ends)[i];
    if (b == 0 && e >= INT32_MAX) return whole;
    if (!whole.known()) return a.unknown;
    auto clamp = [&](int64_t x) { return std::clamp(x < 0 ? x + whole.number : x, int64_t{0}, whole.number); };
    return Extent::of(std::max<int64_t>(0, clamp(e) - clamp(b)));
  }
  return one(a.n.in(0), a.axis);
}

Extent Analysis::gather(const Asked& a) {
  if (a.rank0 < 0) return a.unknown;
  const int along = static_cast<int>(normalize_axis(a.n.get_int("axis", 0), a.rank0)), ri = rank(g_, a.n.in(1));
  if (ri < 0) return a.unknown;
  if (a.axis < along) return one(a.n.in(0), a.axis);
  return a.axis < along + ri ? one(a.n.in(1), a.axis - along) : one(a.n.in(0), a.axis - ri + 1);
}

Extent Analysis::gather_elements(const Asked& a) { return a.rank == rank(g_, a.n.in(1)) ? one(a.n.in(1), a.axis) : a.unknown; }

Extent Analysis::filled(const Asked& a) {
  const auto target = values(a.n.in(0));
  return target && static_cast<int>(target->size()) == a.rank ? (*target)[static_cast<size_t>(a.axis)] : a.unknown;
}

Extent Analysis::range(const Asked& a) {
  const auto end = values(a.n.in(1));
  return is_scalar(g_, a.n.in(0), 0) && is_scalar(g_, a.n.in(2), 1) && end && end->size() == 1 ? (*end)[0] : a.unknown;
}

Extent Analysis::reduction(const Asked& a) {
  if (!a.n.get_int("keepdims", 1) || a.rank0 != a.rank) return a.unknown;
  const auto axes = ints(g_, a.id, "axes", 1);
  if (!axes) return a.unknown;
  for (int64_t x : *axes)
    if (normalize_axis(x, a.rank) == a.axis) return Extent::of(1);
  return axes->empty() ? a.unknown : one(a.n.in(0), a.axis);
}

}  // namespace smelt::fuse
