// Before   ONNX's Attention over q [B, H, S, D] and k, v [B, Hk, S, D], or with heads side by side in [B, S, H * D]
// After    ai.smelt.Attention: masks are operands of its program, is_causal a mask (a constant, or made in the run of lengths that
//          only it knows), softcap a part of the program. Heads that lie side by side are taken apart by Reshape and Transpose, and put back; a cache goes before k and v by Concat,
//          whose results are present_key and present_value
// Unless   the scores are an output, or the number of valid keys is computed, or a window limits them
//          is_causal on a GPU, and the number of queries or keys is not known, or their product is over 2^24
//          a mask is not proven to broadcast to the scores
//          the type is not a float, or q, k, v differ in it; the rank or the number of heads is not known, or does not fit
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/value_of.h"
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

enum Input : size_t { query, key, value, mask, past_key, past_value, valid_lengths };

/// What is known of the operands; extents may be symbolic.
struct Shapes {
  bool packed = false;
  int64_t heads = 0, kv_heads = 0, size = 0;  // size: of one query
  Extent batch, steps, keys;                  // keys: the past's and the fresh ones; not known when either is not
  std::optional<int64_t> past;                // nothing: not known
};

/// True where both are numbers, and differ: nothing in ONNX's inference makes q, k and v of one Attention fit each other.
bool differ(const Extent& a, const Extent& b) { return a.known() && b.known() && a.number != b.number; }

/// Whether q, k and v, of the same rank, may be those of one attention: as many batches and values, heads that divide, one depth.
bool fit(const Extents& q, const Extents& k, const Extents& v, int64_t heads, int64_t kv_heads, bool packed) {
  if (heads % kv_heads != 0 || differ(q[0], k[0]) || differ(q[0], v[0]) || differ(k[k.size() - 2], v[v.size() - 2])) return false;
  const Extent &wq = q.back(), &wk = k.back(), &wv = v.back();
  if (!packed) return !differ(wq, wk) && v[1].is(kv_heads);
  return wq.number % heads == 0 && (!wk.known() || wk.number == wq.number / heads * kv_heads) &&
         (!wv.known() || wv.number % kv_heads == 0);
}

Result<Shapes> shapes_of(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const auto q = extents(g, n.in(query)), k = extents(g, n.in(key)), v = extents(g, n.in(value));
  if (!q || !k || !v) return refuse(Reason::unknown_shape, id, "the rank of q, k or v is not known");
  if (q->size() != k->size() || q->size() != v->size() || (q->size() != 3 && q->size() != 4))
    return refuse(Reason::wrong_rank, id, "q {}, k {} and v {}: expected three or four axes each", to_string(*q), to_string(*k),
                  to_string(*v));
  Shapes s;
  s.packed = q->size() == 3;
  s.heads = s.packed ? n.get_int("q_num_heads", 0) : (*q)[1].number;
  s.kv_heads = s.packed ? n.get_int("kv_num_heads", 0) : (*k)[1].number;
  const Extent width = q->back();
  if (s.heads < 1 || s.kv_heads < 1 || !width.known())
    return refuse(Reason::unknown_shape, id, "q {} and k {}: the number of heads or their size is not known", to_string(*q),
                  to_string(*k));
  if (!fit(*q, *k, *v, s.heads, s.kv_heads, s.packed))
    return refuse(Reason::wrong_shape, id, "q {}, k {} and v {} do not fit each other with {} and {} heads", to_string(*q),
                  to_string(*k), to_string(*v), s.heads, s.kv_heads);
  s.size = s.packed ? width.number / s.heads : width.number;
  s.batch = (*q)[0];
  s.steps = (*q)[q->size() - 2];
  s.keys = (*k)[k->size() - 2];
  s.past = 0;
  if ((n.in(past_key) == ValueId::none) != (n.in(past_value) == ValueId::none))
    return refuse(Reason::missing_input, id, "one of past_key and past_value is there without the other");
  if (n.in(past_key) != ValueId::none) {
    const auto past = extents(g, n.in(past_key));
    const auto past_v = extents(g, n.in(past_value));
    if (!past || past->size() != 4 || !past_v || past_v->size() != 4)
      return refuse(Reason::unknown_shape, id, "past_key and past_value are not known to have four axes");
    const Extent kv_heads = Extent::of(s.kv_heads);
    const Extents expected{s.batch, kv_heads, (*past_v)[2], s.packed ? Extent::of(s.size) : k->back()};
    if (!std::equal(past->begin(), past->end(), expected.begin(), std::not_fn(differ)) || differ((*past_v)[1], kv_heads) ||
        differ((*past_v)[0], s.batch))
      return refuse(Reason::wrong_shape, id, "past_key {} and past_value {} do not fit k {}", to_string(*past),
                    to_string(*past_v), to_string(*k));
    s.past = (*past)[2].known() ? std::optional((*past)[2].number) : std::nullopt;
    s.keys = s.past && s.keys.known() ? Extent::of(*s.past + s.keys.number) : Extent{};
  }
  return s;
}

/// True where the query at row i may see the key at column j.
Tensor causal_mask(int64_t steps, int64_t keys, int64_t past) {
  Tensor t = Tensor::empty(DType::boolean, {steps, keys});
  for (int64_t i = 0; i < steps; ++i)
    for (int64_t j = 0; j < keys; ++j) t.data<bool>()[i * keys + j] = j <= i + past;
  return t;
}

/// x * scale; cap * tanh(x / cap); then each mask in turn: a bool one hides, any other is added.
expr::Program scores_program(DType type, double scale, double cap, std::span<const DType> masks) {
  const DType wide = accumulator(type);
  expr::Program p;
  const expr::Ref in0 = p.input(wide);
  std::vector<expr::Ref> operands;
  for (DType m : masks) operands.push_back(p.input(m));
  expr::Ref x = scale == 1 ? in0 : p.call(expr::Fn::mul, in0, p.constant(wide, scale));
  if (cap > 0) {
    const expr::Ref c = p.constant(wide, cap);
    x = p.call(expr::Fn::mul, c, p.call(expr::Fn::tanh, p.call(expr::Fn::div, x, c)));
  }
  for (size_t i = 0; i < masks.size(); ++i) {
    if (masks[i] == DType::boolean)
      x = p.call(expr::Fn::select, operands[i], x, p.constant(wide, -std::numeric_limits<double>::infinity()));
    else
      x = p.call(expr::Fn::add, x, p.cast(operands[i], wide));
  }
  p.output(x);
  return p;
}

/// A further node of the same origin as `like`, placed with it.
ValueId add_step(Graph& g, const Node& like, std::string op, std::vector<ValueId> inputs, ValueId output,
                 std::map<std::string, Attribute> attrs = {}) {
  Node n;
  n.op = std::move(op);
  n.name = like.name + "/" + n.op;
  n.opset = like.opset;
  n.sources = like.sources;
  n.order = like.order;
  n.inputs = std::move(inputs);
  n.outputs = {output};
  n.attrs = std::move(attrs);
  g.add_node(std::move(n));
  return output;
}

const std::vector<int64_t> swap_heads{0, 2, 1, 3};

/// Of a tensor whose rank is known.
const SymShape& shape_of(const Graph& g, ValueId v) { return value_of(g.value(v).shape, "the shape of attention's tensor"); }

/// [B, S, H * D] → [B, H, S, D].
ValueId split_heads(Graph& g, const Node& like, ValueId x, int64_t heads) {
  const SymShape s = shape_of(g, x);
  const DType type = g.value(x).type;
  const Dim width = s[2].known() ? Dim(s[2].value / heads) : Dim();
  const ValueId wide = g.add_value("", type, SymShape{s[0], s[1], Dim(heads), width});
  add_step(g, like, "Reshape", {x, g.add_constant("", Tensor::of<int64_t>({4}, {0, 0, heads, -1}))}, wide);
  return add_step(g, like, "Transpose", {wide}, g.add_value("", type, SymShape{s[0], Dim(heads), s[1], width}),
                  {{"perm", swap_heads}});
}

/// The cache before the fresh ones, as the operator's output `present` where that is there.
ValueId join_past(Graph& g, const Node& like, ValueId past, ValueId fresh, ValueId present) {
  SymShape s = shape_of(g, fresh);
  const Dim before = shape_of(g, past)[2];
  s[2] = s[2].known() && before.known() ? Dim(s[2].value + before.value) : Dim();
  if (present == ValueId::none)
    present = g.add_value("", g.value(fresh).type, s);
  else {
    // What is declared may know less than the fresh ones: heads by a symbol of the past's.
    if (const auto& declared = g.value(present).shape; declared && declared->size() == s.size())
      for (size_t i = 0; i < s.size(); ++i)
        if (!s[i].known()) s[i] = (*declared)[i];
    g.set_shape(present, s);
  }
  return add_step(g, like, "Concat", {past, fresh}, present, {{"axis", int64_t{2}}});
}

/// The number of rows of x [B, H, rows, D], a scalar.
ValueId count_rows(Graph& g, const Node& like, ValueId x) {
  const ValueId rows =
      add_step(g, like, "Shape", {x}, g.add_value("", DType::i64, SymShape{1}), {{"start", int64_t{2}}, {"end", int64_t{3}}});
  return add_step(g, like, "Squeeze", {rows}, g.add_value("", DType::i64, SymShape{}));
}

/// causal_mask of q's rows over k's, which begin with those of `past` where that is there, made in the run.
ValueId computed_causal_mask(Graph& g, const Node& like, ValueId q, ValueId k, ValueId past) {
  const auto scalar_of = [&](int64_t v) { return g.add_constant("", Tensor::of<int64_t>({}, {v})); };
  const Dim queries = shape_of(g, q)[2], keys = shape_of(g, k)[2];
  const ValueId begin = past == ValueId::none ? scalar_of(0) : count_rows(g, like, past);
  const ValueId end = add_step(g, like, "Add", {begin, count_rows(g, like, q)}, g.add_value("", DType::i64, SymShape{}));
  const ValueId row = add_step(g, like, "Range", {begin, end, scalar_of(1)}, g.add_value("", DType::i64, SymShape{queries}));
  const ValueId rows = add_step(g, like, "Unsqueeze", {row, g.add_constant("", Tensor::of<int64_t>({1}, {1}))},
                                g.add_value("", DType::i64, SymShape{queries, Dim(1)}));
  const ValueId columns = add_step(g, like, "Range", {scalar_of(0), count_rows(g, like, k), scalar_of(1)},
                                   g.add_value("", DType::i64, SymShape{keys}));
  return add_step(g, like, "GreaterOrEqual", {rows, columns}, g.add_value("", DType::boolean, SymShape{queries, keys}));
}

Outcome matched(const Graph& g, NodeId id, bool of_any_lengths) {
  const Node& n = g.node(id);
  if (!n.is("Attention")) return NotHere{};
  const auto used = [&](size_t i) {
    return n.out(i) != ValueId::none && (g.is_output(n.out(i)) || !g.readers(n.out(i)).empty());
  };
  if (used(3)) return refuse(Reason::extra_reader, id, "the scores ({}) are read", g.value(n.out(3)).name);
  if (n.in(valid_lengths) != ValueId::none)
    return refuse(Reason::unsupported, id, "{} says how many keys are valid", g.value(n.in(valid_lengths)).name);
  if (n.get_int("left_window_size", -1) >= 0 || n.get_int("right_window_size", -1) >= 0)
    return refuse(Reason::wrong_attribute, id, "a window limits the keys that a query sees");
  for (size_t i : {0, 1, 2}) {
    const int expected = i == 0 ? rank(g, n.in(query)) : 4, declared = n.out(i) == ValueId::none ? -1 : rank(g, n.out(i));
    if (declared >= 0 && declared != expected)
      return refuse(Reason::wrong_rank, id, "{} is declared to have {} axes, and has {}", g.value(n.out(i)).name, declared,
                    expected);
  }
  const DType type = g.value(n.in(query)).type;
  for (ValueId x : {n.in(query), n.in(key), n.in(value), n.out(0)})
    if (!is_real(type) || g.value(x).type != type)
      return refuse(Reason::wrong_type, id, "q is {}, {} is {}", name(type), g.value(x).name, name(g.value(x).type));
  auto found = shapes_of(g, id);
  if (!found) return found.refusal();
  const Shapes& s = *found;
  if (s.size < 1) return refuse(Reason::wrong_shape, id, "heads without elements");
  const bool cached = n.in(past_key) != ValueId::none;

  std::vector<DType> masks;
  std::optional<Tensor> causal;
  const bool is_causal = n.get_int("is_causal", 0) != 0;
  if (is_causal) {
    const bool known = s.steps.known() && s.keys.known() && s.past;
    const bool fits = known && s.steps.number * s.keys.number <= int64_t{1} << 24;
    if (!known && !of_any_lengths)
      return refuse(Reason::unknown_shape, id, "is_causal, and the number of queries or keys is not known");
    if (!fits && !of_any_lengths)
      return refuse(Reason::too_large, id, "is_causal, and a mask of {} x {}", s.steps.number, s.keys.number);
    if (fits) causal = causal_mask(s.steps.number, s.keys.number, *s.past);
    masks.push_back(DType::boolean);
  }
  if (n.in(mask) != ValueId::none) {
    const auto m = extents(g, n.in(mask));
    const Extents scores{s.batch, Extent::of(s.heads), s.steps, s.keys};
    const bool keys_known = s.keys.known() || s.keys.value != ValueId::none || !s.keys.symbol.empty();
    if (!m || !keys_known || !broadcasts_to(*m, scores))
      return refuse(Reason::wrong_shape, id, "{} {} is not proven to broadcast to the scores {}", g.value(n.in(mask)).name,
                    m ? to_string(*m) : "(rank unknown)", to_string(scores));
    const DType added = g.value(n.in(mask)).type;
    if (!expr::is_computing(added) && !is_real(added))
      return refuse(Reason::wrong_type, id, "{} is {}", g.value(n.in(mask)).name, name(added));
    masks.push_back(added);
  }
  const double cap = n.get_float("softcap", 0);
  double scale = n.has("scale") ? static_cast<double>(n.get_float("scale", 1)) : 1 / std::sqrt(static_cast<double>(s.size));
  double program_scale = 1;
  if (type == DType::f64 && !fits_attribute(scale)) std::swap(scale, program_scale);

  std::vector<std::string_view> form;
  if (is_causal) form.push_back("causal");
  if (n.in(mask) != ValueId::none) form.push_back("mask");
  if (cap > 0) form.push_back("softcap");
  if (s.kv_heads != s.heads) form.push_back("grouped heads");
  if (cached) form.push_back("cache");

  return Match{
      {id},
      [id, s, masks, is_causal, causal, cap, scale, program_scale, type, cached](Graph& graph) {
        const Node node = graph.node(id);
        graph.remove_node(id);
        ValueId q = node.in(query), k = node.in(key), v = node.in(value), y = node.out(0);
        if (s.packed) {
          q = split_heads(graph, node, q, s.heads);
          k = split_heads(graph, node, k, s.kv_heads);
          v = split_heads(graph, node, v, s.kv_heads);
          SymShape out = shape_of(graph, q);
          out[3] = shape_of(graph, v)[3];
          y = graph.add_value("", type, out);
        }
        if (cached) {
          k = join_past(graph, node, node.in(past_key), k, node.out(1));
          v = join_past(graph, node, node.in(past_value), v, node.out(2));
        } else {
          for (size_t i : {1, 2})
            if (node.out(i) != ValueId::none) add_step(graph, node, "Identity", {i == 1 ? k : v}, node.out(i));
        }
        Node fused = fused_node("Attention", {q, k, v}, {y});
        if (is_causal)
          fused.inputs.push_back(causal ? graph.add_constant("", *causal)
                                        : computed_causal_mask(graph, node, q, k, node.in(past_key)));
        if (node.in(mask) != ValueId::none) fused.inputs.push_back(node.in(mask));
        if (cap > 0 || program_scale != 1 || !masks.empty()) fused.program = scores_program(type, program_scale, cap, masks);
        fused.attrs["scale"] = static_cast<float>(scale);
        if (node.in(mask) != ValueId::none) fused.attrs["nan_guard"] = int64_t{1};  // a row that is hidden whole gives zeros
        fused.name = node.name;
        fused.sources = node.sources;
        fused.order = node.order;
        const NodeId made = graph.add_node(std::move(fused));
        if (s.packed) {
          const SymShape out = shape_of(graph, y);
          const ValueId back = graph.add_value("", type, SymShape{out[0], out[2], out[1], out[3]});
          add_step(graph, node, "Transpose", {y}, back, {{"perm", swap_heads}});
          add_step(graph, node, "Reshape", {back, graph.add_constant("", Tensor::of<int64_t>({3}, {0, 0, -1}))}, node.out(0));
        }
        return made;
      },
      joined(form)};
}

}  // namespace

Outcome attention_operator(const Graph& g, NodeId id) { return matched(g, id, true); }

Outcome attention_operator_of_known_lengths(const Graph& g, NodeId id) { return matched(g, id, false); }

}  // namespace smelt::fuse
