// Before   MatMul(Softmax(MatMul(q, kᵀ) * scale + mask), v); the scale on q, on k, on both (its root on each) or on the scores,
//          as Mul or Div; the mask as Add, Where or any pointwise nodes; a Where(IsNaN) guard after the softmax; casts around
//          the softmax; k and v repeated over groups of heads by Expand or Tile, or one head for all; vᵀ · pᵀ instead of p · v;
//          [B, S, D] and [S, D] too
// After    ai.smelt.Attention; what is between the product and the softmax is its program, masks are operands; k and v are
//          not repeated; axes of 1 before others than four
// Unless   the softmax is not over the last axis
//          the probabilities or the scores have another reader or are a graph output
//          there is no product before the softmax or after it
//          q, k, v are not of two to four axes with the same B, and heads that divide
//          a mask does not broadcast to the scores, or may not
//          the types differ, or the softmax is in another one than the products add up in
#include "fuse/match/extents.h"
#include "fuse/match/product_parts.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/recognise/attention_placed.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

std::string shape_text(const Graph& g, ValueId v) {
  const auto shape = extents(g, v);
  return shape ? to_string(*shape) : "(rank unknown)";
}

/// From the softmax to the second product: casts and the guard.
struct After {
  std::vector<NodeId> nodes;
  NodeId product = NodeId::none;
  bool nan_guard = false;
  bool turned = false;  // the product is vᵀ · pᵀ
};
Result<After> after_softmax(const Graph& g, NodeId softmax) {
  After a;
  ValueId at = g.node(softmax).out();
  for (int step = 0; step < 4; ++step) {
    // The guard reads its argument twice: IsNaN(p), Where(isnan, 0, p).
    NodeId isnan = NodeId::none, where = NodeId::none;
    for (const Use& u : g.readers(at)) {
      if (g.node(u.node).is("IsNaN")) isnan = u.node;
      if (g.node(u.node).is("Where") && u.input == 2) where = u.node;
    }
    if (isnan != NodeId::none && where != NodeId::none && g.readers(at).size() == 2 && !g.is_output(at)) {
      if (g.node(where).in(0) != g.node(isnan).out())
        return refuse(Reason::wrong_reader, where, "Where's condition is not {}", describe(g, isnan));
      if (!is_scalar(g, g.node(where).in(1), 0))
        return refuse(Reason::wrong_value, where, "NaN is replaced by another value than 0");
      a.nodes.push_back(isnan);
      a.nodes.push_back(where);
      a.nan_guard = true;
      at = g.node(where).out();
      continue;
    }
    auto next = reader_of(g, at);
    if (!next) return next.refusal();
    const NodeId n = *next;
    if (g.node(n).is("Cast") && is_real(g.value(g.node(n).out()).type)) {
      a.nodes.push_back(n);
      at = g.node(n).out();
      continue;
    }
    if (g.node(n).is("Transpose") && swaps_last_two(g, n)) {
      a.turned = !a.turned;
      a.nodes.push_back(n);
      at = g.node(n).out();
      continue;
    }
    if (!g.node(n).is("MatMul")) return refuse(Reason::wrong_reader, n, "the probabilities are read by {}", describe(g, n));
    if (g.node(n).in(a.turned ? 1 : 0) != at || g.node(n).in(a.turned ? 0 : 1) == at)
      return refuse(Reason::wrong_reader, n, "the probabilities{} are not the {} factor of {}", a.turned ? ", transposed," : "",
                    a.turned ? "second" : "first", describe(g, n));
    a.product = n;
    a.nodes.push_back(n);
    return a;
  }
  return refuse(Reason::wrong_reader, softmax, "no product of the probabilities follows");
}

/// From the scores' product to the softmax, the product first: pointwise nodes each of which is read by the next alone. Empty
/// with the reason when the way back ends elsewhere.
Result<std::vector<NodeId>> before_softmax(const Graph& g, ValueId v, int steps = 8) {
  NodeId n = g.value(v).producer;
  if (n == NodeId::none) return refuse(Reason::wrong_producer, n, "{} is not computed", g.value(v).name);
  auto alone = reader_of(g, v);
  if (!alone) return alone.refusal();
  if (g.node(n).is("MatMul")) return std::vector<NodeId>{n};
  if (steps == 0 || !is_pointwise(g, n) || g.node(n).outputs.size() != 1)
    return refuse(Reason::wrong_producer, n, "the softmax's argument is made by {}, not by a product", describe(g, n));
  Refusal why = refuse(Reason::wrong_producer, n, "no operand of {} is a product", describe(g, n));
  for (ValueId operand : operands_of(g, n)) {
    if (rank(g, operand) != rank(g, v) || !is_real(g.value(operand).type)) continue;
    auto way = before_softmax(g, operand, steps - 1);
    if (way) {
      way->push_back(n);
      return way;
    }
    if (way.refusal().reason != Reason::wrong_producer) why = way.refusal();
  }
  return why;
}

/// Constant factors right behind the product belong to the scale.
size_t take_scale(const Graph& g, const std::vector<NodeId>& way, double& scale) {
  size_t i = 1;
  for (; i < way.size(); ++i) {
    const Node& n = g.node(way[i]);
    if (!n.is("Mul") && !n.is("Div")) break;
    auto c = constant_operand(g, way[i]);
    if (!c || (n.is("Div") && (c->second != n.in(0) || c->first == 0))) break;
    scale *= n.is("Mul") ? c->first : 1 / c->first;
  }
  return i;
}

std::optional<Refusal> wrong_shapes(const Graph& g, const Peeled& q, const Peeled& k, const Peeled& v) {
  const int axes = rank(g, q.value);
  for (const Peeled* p : {&q, &k, &v})
    if (int r = rank(g, p->value); r != axes || r < 2 || r > 4)
      return refuse(r < 0 ? Reason::unknown_shape : Reason::wrong_rank, g.value(p->value).producer,
                    "{} has rank {}, q {}: expected 2 to 4, and the same", g.value(p->value).name, r, axes);
  if (axes == 2) return {};
  if (axes == 4)
    for (const Peeled* p : {&k, &v})
      if (extent(g, p->value, 0) != extent(g, q.value, 0))
        return refuse(Reason::wrong_shape, g.value(p->value).producer, "{} and {} are not proven to have the same batch extent",
                      g.value(p->value).name, g.value(q.value).name);
  const Extent heads = extent(g, q.value, -3);
  const bool one_for_all = axes == 4 && extent(g, k.value, 1).is(1) && extent(g, v.value, 1).is(1);
  for (const Peeled* p : {&k, &v}) {
    Extent h = extent(g, p->value, -3);
    if (h.known()) h.number *= p->repeats;
    if (h != heads && !one_for_all)
      return refuse(Reason::wrong_shape, g.value(p->value).producer, "{} {} and {} {} do not have heads that divide",
                    g.value(p->value).name, shape_text(g, p->value), g.value(q.value).name, shape_text(g, q.value));
  }
  return {};
}

/// v as the second factor of p · v.
struct Values {
  Peeled peeled;
  bool transpose = false;  // it stands there transposed, and is to be turned
};
Values values_of(const Graph& g, const After& a) {
  Values v;
  v.peeled.value = g.node(a.product).in(a.turned ? 0 : 1);
  NodeId transpose;
  if (!a.turned) return v;
  v.transpose = !made_by(g, v.peeled.value, "Transpose", &transpose) || !swaps_last_two(g, transpose);
  if (v.transpose) return v;
  v.peeled.alone = g.only_reader(v.peeled.value) != NodeId::none;
  if (v.peeled.alone) v.peeled.nodes.push_back(transpose);
  v.peeled.value = g.node(transpose).in(0);
  return v;
}

}  // namespace

Outcome attention(const Graph& g, NodeId softmax) {
  if (!g.node(softmax).is("Softmax")) return NotHere{};
  const ValueId argument = g.node(softmax).in(0);
  const int64_t axis = g.node(softmax).get_int("axis", -1);
  auto after = after_softmax(g, softmax);
  if (!after) return after.refusal();
  const After& a = *after;
  auto before = before_softmax(g, argument);
  if (!before) return before.refusal();
  const std::vector<NodeId>& way = *before;
  const int r = rank(g, argument);
  if (r < 0) return refuse(Reason::unknown_shape, softmax, "the rank of {} is not known", g.value(argument).name);
  if (axis != -1 && axis != r - 1) return refuse(Reason::wrong_axis, softmax, "the softmax is over axis {} of {}", axis, r);

  const Node& product = g.node(way[0]);
  Peeled q = peel_scale_and_transpose(g, product.in(0), false), k = peel_scale_and_transpose(g, product.in(1));
  const Values values = values_of(g, a);
  Peeled v = values.peeled;
  const Peeled k_as_read = k, v_as_read = v;
  peel_repeated_heads(g, v);
  if (v.repeats > 1 && k.transposed) peel_repeated_heads(g, k);
  if (k.repeats != v.repeats) {  // only one is repeated, or they differ: both are read as they are
    k = k_as_read;
    v = v_as_read;
  }
  if (auto no = wrong_shapes(g, q, k, v)) return *no;
  if (const int made = rank(g, g.node(a.product).out()); made >= 0 && made != rank(g, q.value))  // by a guard's zero of more axes
    return refuse(Reason::wrong_rank, a.product, "{} has rank {}, q {}", g.value(g.node(a.product).out()).name, made,
                  rank(g, q.value));
  const DType type = g.value(q.value).type;
  for (ValueId x : {k.value, v.value, g.node(a.product).out()})
    if (!is_real(type) || g.value(x).type != type)
      return refuse(Reason::wrong_type, g.value(x).producer, "q is {}, {} is {}", name(type), g.value(x).name,
                    name(g.value(x).type));

  double scale = q.scale * k.scale;
  const size_t first = take_scale(g, way, scale);
  const ValueId scores = g.node(way[first - 1]).out();
  Base base{scores, expr::conversion(accumulator(type), g.value(scores).type), {}};
  const bool scale_in_program = type == DType::f64 && !fits_attribute(scale);
  if (scale_in_program) {
    base.program = {};
    const expr::Ref in0 = base.program.input(type);
    base.program.output(base.program.call(expr::Fn::mul, in0, base.program.constant(type, scale)));
    scale = 1;
  }
  std::vector<ValueId> operands;
  std::optional<expr::Program> program;
  if (first < way.size() || scale_in_program) {
    Body c = compose(g, &base, std::span(way).subspan(first), std::span(&argument, 1), true);
    for (ValueId o : c.operands)
      if (!broadcasts_to(g, o, scores))
        return refuse(Reason::wrong_shape, g.value(o).producer, "{} {} is not proven to broadcast to the scores {}",
                      g.value(o).name, shape_text(g, o), shape_text(g, scores));
    if (const DType made = c.program.type(c.program.outputs()[0]); made != accumulator(type))
      return refuse(Reason::wrong_type, softmax, "the softmax is over {}, products of {} add up in {}", name(made), name(type),
                    name(accumulator(type)));
    operands = c.operands;
    program = c.program;
  }

  std::vector<NodeId> nodes = way;
  nodes.push_back(softmax);
  nodes.insert(nodes.end(), a.nodes.begin(), a.nodes.end());
  const ValueId y = g.node(a.product).out();
  if (auto no = escapes(g, nodes, {y})) return *no;
  for (const Peeled* p : {&q, &k, &v}) nodes.insert(nodes.end(), p->nodes.begin(), p->nodes.end());
  nodes = in_order(g, std::move(nodes));

  Node fused = fused_node("Attention", {q.value, k.value, v.value}, {y});
  fused.inputs.insert(fused.inputs.end(), operands.begin(), operands.end());
  fused.program = program;
  fused.attrs["scale"] = static_cast<float>(scale);
  if (!k.transposed) fused.attrs["k_transposed"] = int64_t{1};
  if (a.nan_guard) fused.attrs["nan_guard"] = int64_t{1};
  std::vector<std::string_view> form;
  if (!operands.empty()) form.push_back("mask");
  if (a.nan_guard) form.push_back("NaN guard");
  if (v.repeats > 1) form.push_back("grouped heads");
  if (rank(g, q.value) < 4) form.push_back("fewer axes");
  return Match{nodes, PlacedAttention{nodes, fused, rank(g, q.value), values.transpose, a.turned}, joined(form)};
}

}  // namespace smelt::fuse
