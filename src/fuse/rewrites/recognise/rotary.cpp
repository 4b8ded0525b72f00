// Before   with (a, b) the halves of x's last axis (Split or Slices): Concat(a * cos - b * sin, a * sin + b * cos);
//          or x * cos + Concat(-b, a) * sin;
//          with (a, b) the even and odd elements: the first formulas interleaved again (Unsqueeze, Concat, Reshape)
// After    ai.smelt.RotaryEmbedding(x, cos, sin)
// Unless   the halves are not equal, or not of one x
//          the two products do not use the same cos and sin
//          cos or sin does not broadcast over x, or may not
//          a value inside has another reader or is a graph output
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// One of two equal parts of x along its last axis.
struct Part {
  ValueId x = ValueId::none;
  int which = -1;  // 0 the first half (or the even elements), 1 the other
  bool interleaved = false;
  std::vector<NodeId> nodes;
  bool operator==(const Part&) const = default;
};

std::optional<Part> part(const Graph& g, ValueId v) {
  const NodeId n = g.value(v).producer;
  if (n == NodeId::none) return {};
  const Node& node = g.node(n);
  const int r = rank(g, v);
  if (r < 1) return {};
  if (node.is("Split")) {
    if (normalize_axis(node.get_int("axis", 0), r) != r - 1 || node.outputs.size() != 2) return {};
    if (extent(g, node.outputs[0], -1) != extent(g, node.outputs[1], -1)) return {};
    return Part{node.in(0), g.value(v).output, false, {n}};
  }
  if (!node.is("Slice")) return {};
  auto starts = ints(g, n, "starts", 1), ends = ints(g, n, "ends", 2), axes = ints(g, n, "axes", 3),
       steps = ints(g, n, "steps", 4);
  if (!starts || !ends || !axes || starts->size() != 1 || ends->size() != 1 || axes->size() != 1 ||
      (steps && steps->size() != 1) || normalize_axis((*axes)[0], r) != r - 1)
    return {};
  const Extent whole = extent(g, node.in(0), -1);
  if (!whole.known() || whole.number % 2 != 0) return {};
  const int64_t half = whole.number / 2, begin = (*starts)[0] < 0 ? (*starts)[0] + whole.number : (*starts)[0],
                end = std::min((*ends)[0] < 0 ? (*ends)[0] + whole.number : (*ends)[0], whole.number),
                step = steps ? (*steps)[0] : 1;
  if (step == 1 && begin == 0 && end == half) return Part{node.in(0), 0, false, {n}};
  if (step == 1 && begin == half && end == whole.number) return Part{node.in(0), 1, false, {n}};
  if (step == 2 && (begin == 0 || begin == 1) && end >= whole.number - 1 + begin)
    return Part{node.in(0), static_cast<int>(begin), true, {n}};
  return {};
}

/// A product of two values, with the node.
struct Term {
  NodeId node = NodeId::none;
  ValueId a, b;
};
std::optional<Term> term(const Graph& g, ValueId v) {
  NodeId n;
  if (!made_by(g, v, "Mul", &n)) return {};
  return Term{n, g.node(n).in(0), g.node(n).in(1)};
}

struct Rotation {
  ValueId x, cos, sin;
  bool interleaved = false;
  std::vector<NodeId> nodes;
};
using Found = std::variant<NotHere, Refusal, Rotation>;

/// first = a * cos - b * sin, second = a * sin + b * cos.
Found rotation(const Graph& g, ValueId first, ValueId second) {
  NodeId sub, add;
  if (!made_by(g, first, "Sub", &sub) || !made_by(g, second, "Add", &add)) return NotHere{};
  auto t1 = term(g, g.node(sub).in(0)), t2 = term(g, g.node(sub).in(1)), t3 = term(g, g.node(add).in(0)),
       t4 = term(g, g.node(add).in(1));
  if (!t1 || !t2 || !t3 || !t4) return NotHere{};
  std::optional<Part> a = part(g, t1->a), b = part(g, t2->a);
  ValueId cos = t1->b, sin = t2->b;
  if (!a) a = part(g, t1->b), cos = t1->a;
  if (!b) b = part(g, t2->b), sin = t2->a;
  if (!a || !b) return NotHere{};
  if (a->x != b->x || a->which != 0 || b->which != 1 || a->interleaved != b->interleaved)
    return refuse(Reason::wrong_producer, b->nodes[0], "the two halves are not those of one value");
  const ValueId va = t1->a == cos ? t1->b : t1->a, vb = t2->a == sin ? t2->b : t2->a;
  auto is_product = [](const Term& t, ValueId u, ValueId w) { return (t.a == u && t.b == w) || (t.a == w && t.b == u); };
  const bool straight = is_product(*t3, va, sin) && is_product(*t4, vb, cos),
             swapped = is_product(*t4, va, sin) && is_product(*t3, vb, cos);
  if (!straight && !swapped) return refuse(Reason::wrong_producer, add, "{} does not add a * sin and b * cos", describe(g, add));
  Rotation r{a->x, cos, sin, a->interleaved, {t1->node, t2->node, t3->node, t4->node, sub, add}};
  r.nodes.insert(r.nodes.end(), a->nodes.begin(), a->nodes.end());
  r.nodes.insert(r.nodes.end(), b->nodes.begin(), b->nodes.end());
  return r;
}

/// Concat(-b, a): the node list, or nothing.
std::optional<std::pair<ValueId, std::vector<NodeId>>> rotated_halves(const Graph& g, ValueId v) {
  NodeId concat, neg;
  if (!made_by(g, v, "Concat", &concat) || g.node(concat).inputs.size() != 2) return {};
  const int r = rank(g, v);
  if (r < 1 || normalize_axis(g.node(concat).get_int("axis", 0), r) != r - 1 || !made_by(g, g.node(concat).in(0), "Neg", &neg))
    return {};
  auto b = part(g, g.node(neg).in(0)), a = part(g, g.node(concat).in(1));
  if (!a || !b || a->x != b->x || a->which != 0 || b->which != 1 || a->interleaved || b->interleaved) return {};
  std::vector<NodeId> nodes{concat, neg};
  nodes.insert(nodes.end(), a->nodes.begin(), a->nodes.end());
  nodes.insert(nodes.end(), b->nodes.begin(), b->nodes.end());
  return std::pair{a->x, nodes};
}

Outcome make(const Graph& g, const Rotation& r, ValueId y) {
  if (!is_real(g.value(r.x).type) || g.value(y).type != g.value(r.x).type)
    return refuse(Reason::wrong_type, g.value(y).producer, "x is {}, the result {}", name(g.value(r.x).type),
                  name(g.value(y).type));
  auto x = extents(g, r.x);
  if (!x || x->empty())
    return refuse(Reason::unknown_shape, g.value(r.x).producer, "{} is not known to have an axis", g.value(r.x).name);
  const Extent d = x->back();
  if (!d.known() || d.number % 2 != 0)
    return refuse(Reason::unknown_shape, g.value(r.x).producer, "the last extent of {} is {}, not a known even number",
                  g.value(r.x).name, to_string(Extents{d}));
  for (ValueId table : {r.cos, r.sin}) {
    auto e = extents(g, table);
    if (!e || e->empty())
      return refuse(Reason::unknown_shape, g.value(table).producer, "the shape of {} is not known", g.value(table).name);
    if (g.value(table).type != g.value(r.x).type)
      return refuse(Reason::wrong_type, g.value(table).producer, "{} is {}, x is {}", g.value(table).name,
                    name(g.value(table).type), name(g.value(r.x).type));
    Extents to = *x;
    if (e->back().is(d.number / 2)) to.back() = e->back();
    if (!broadcasts_to(*e, to))
      return refuse(Reason::wrong_shape, g.value(table).producer, "{} {} does not broadcast over {}", g.value(table).name,
                    to_string(*e), to_string(*x));
  }
  std::vector<NodeId> nodes = in_order(g, r.nodes);
  if (auto no = escapes(g, nodes, {y})) return *no;
  Node fused = fused_node("RotaryEmbedding", {r.x, r.cos, r.sin}, {y});
  if (r.interleaved) fused.attrs["interleaved"] = int64_t{1};
  return replacement(nodes, fused);
}

/// x * cos + rotate(x) * sin.
Outcome from_sum(const Graph& g, NodeId add) {
  auto t1 = term(g, g.node(add).in(0)), t2 = term(g, g.node(add).in(1));
  if (!t1 || !t2) return NotHere{};
  for (bool swapped : {false, true}) {
    const Term& plain = swapped ? *t2 : *t1;
    const Term& turned = swapped ? *t1 : *t2;
    for (ValueId v : {turned.a, turned.b}) {
      auto halves = rotated_halves(g, v);
      if (!halves) continue;
      const ValueId cos = plain.a == halves->first ? plain.b : plain.a;
      if (plain.a != halves->first && plain.b != halves->first)
        return refuse(Reason::wrong_producer, plain.node, "{} does not multiply {}", describe(g, plain.node),
                      g.value(halves->first).name);
      Rotation r{halves->first, cos, v == turned.a ? turned.b : turned.a, false, halves->second};
      r.nodes.insert(r.nodes.end(), {plain.node, turned.node, add});
      return make(g, r, g.node(add).out());
    }
  }
  return NotHere{};
}

}  // namespace

Outcome recognise_rotary(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (n.is("Add")) return from_sum(g, id);
  if (!n.is("Concat") || n.inputs.size() != 2) return NotHere{};
  const int r = rank(g, n.out());
  if (r < 1 || normalize_axis(n.get_int("axis", 0), r) != r - 1) return NotHere{};

  NodeId u1, u2;
  if (made_by(g, n.in(0), "Unsqueeze", &u1) && made_by(g, n.in(1), "Unsqueeze", &u2)) {  // interleaved again
    Found found = rotation(g, g.node(u1).in(0), g.node(u2).in(0));
    if (const auto* no = std::get_if<Refusal>(&found)) return *no;
    auto* rot = std::get_if<Rotation>(&found);
    if (!rot || !rot->interleaved) return NotHere{};
    auto reader = reader_of(g, n.out());
    if (!reader) return reader.refusal();
    const NodeId flat = *reader;
    if (!g.node(flat).is("Reshape") || !same_shape(g, g.node(flat).out(), rot->x))
      return refuse(Reason::wrong_reader, flat, "{} does not flatten the pairs to the shape of {}", describe(g, flat),
                    g.value(rot->x).name);
    for (NodeId u : {u1, u2}) {
      auto axes = ints(g, u, "axes", 1);
      if (!axes || axes->size() != 1 || normalize_axis((*axes)[0], r) != r - 1)
        return refuse(Reason::wrong_axis, u, "{} does not pair the last axis", describe(g, u));
    }
    rot->nodes.insert(rot->nodes.end(), {u1, u2, id, flat});
    return make(g, *rot, g.node(flat).out());
  }
  Found found = rotation(g, n.in(0), n.in(1));
  if (const auto* no = std::get_if<Refusal>(&found)) return *no;
  auto* rot = std::get_if<Rotation>(&found);
  if (!rot) return NotHere{};
  if (rot->interleaved)
    return refuse(Reason::wrong_reader, id, "even and odd elements are put one behind the other, not interleaved");
  rot->nodes.push_back(id);
  return make(g, *rot, n.out());
}

}  // namespace smelt::fuse
