#include <algorithm>

#include "fuse/match/extents_analysis.h"
#include "fuse/match/match.h"

namespace smelt::fuse {
namespace {
constexpr size_t max_values = 4096;  // elements of a shape being computed; Concat(s, s) doubles them at every step

/// The elements from `begin` to `end`, both counted from the end when negative and moved into the vector when outside.
std::vector<Extent> part(const std::vector<Extent>& e, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(e.size());
  auto clamp = [&](int64_t x) { return std::clamp(x < 0 ? x + size : x, int64_t{0}, size); };
  const int64_t b = clamp(begin);
  return {e.begin() + b, e.begin() + std::max(b, clamp(end))};
}

}  // namespace

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
    const auto e = all(n.in(0));
    return e ? std::optional(part(*e, n.get_int("start", 0), n.get_int("end", static_cast<int64_t>(e->size())))) : std::nullopt;
  }
  if (n.is("Concat")) return concat_values(n);
  if (n.is("Gather")) return gather_values(id);
  if (n.is("Slice")) return slice_values(id);
  if (n.is("Unsqueeze") || n.is("Squeeze") || n.is("Identity") || n.is("Reshape")) {
    // Between a scalar and a vector of one, or between vectors of the same length: the elements stay.
    return rank(g_, n.outputs[0]) <= 1 && rank(g_, n.outputs[0]) >= 0 ? values(n.in(0)) : std::nullopt;
  }
  if (n.is("Cast")) {
    const DType to = g_.value(n.outputs[0]).type;
    return to == DType::i64 || to == DType::i32 ? values(n.in(0)) : std::nullopt;
  }
  return n.is("Add") || n.is("Sub") || n.is("Mul") || n.is("Div") ? arithmetic(n) : std::nullopt;
}

std::optional<std::vector<Extent>> Analysis::concat_values(const Node& n) {
  std::vector<Extent> r;
  for (ValueId in : n.inputs) {
    const auto e = values(in);
    if (!e || r.size() + e->size() > max_values) return {};
    r.insert(r.end(), e->begin(), e->end());
  }
  return r;
}

std::optional<std::vector<Extent>> Analysis::gather_values(NodeId id) {
  const Node& n = g_.node(id);
  const auto e = values(n.in(0));
  if (!e || !g_.value(n.in(1)).is_constant() || g_.constant(id, 1).size() > static_cast<int64_t>(max_values)) return {};
  std::vector<Extent> r;
  for (int64_t i : g_.constant(id, 1).to_ints()) {
    if (i < 0) i += static_cast<int64_t>(e->size());
    if (i < 0 || i >= static_cast<int64_t>(e->size())) return {};
    r.push_back((*e)[static_cast<size_t>(i)]);
  }
  return r;
}

std::optional<std::vector<Extent>> Analysis::slice_values(NodeId id) {
  const Node& n = g_.node(id);
  const auto e = values(n.in(0));
  const auto starts = ints(g_, id, "starts", 1), ends = ints(g_, id, "ends", 2), steps = ints(g_, id, "steps", 4);
  if (!e || !starts || !ends || starts->size() != 1 || ends->size() != 1 || (n.in(4) != ValueId::none && !steps)) return {};
  if (steps && (steps->size() != 1 || (*steps)[0] != 1)) return {};
  return part(*e, (*starts)[0], (*ends)[0]);
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

}  // namespace smelt::fuse
