#include "fuse/rewrites/recognise/norm_parts.h"

#include "fuse/match/extents.h"

namespace smelt::fuse {
namespace {

/// gamma or beta: read beside x by a Mul or an Add whose result is x's shape, of broadcast shape.
bool is_scale(const Graph& g, ValueId v, ValueId x) {
  return v != ValueId::none && is_real(g.value(v).type) && rank(g, v) >= 0 && rank(g, x) >= 0 && broadcasts_to(g, v, x);
}

/// gamma or beta where what they are read beside has the variance's extents: over the normalised axes of x.
bool is_scale_of(const Graph& g, ValueId v, const Numerator& of, const Mean& variance) {
  const ValueId x = of.x == ValueId::none ? of.centred : of.x;
  return is_scale(g, v, x) && g.value(v).type == g.value(x).type && rank(g, v) <= variance.axes;
}

/// x * s + (beta - mean * s), s being the reciprocal root, with gamma in it or not. Why it is not that, if so.
std::optional<Refusal> spread_out(const Graph& g, const Numerator& of, const Mean& variance, ValueId s, NormTail& t) {
  const auto readers = g.readers(s);
  const auto wrong = [&] {
    return refuse(Reason::wrong_reader, g.value(s).producer, "{} is not read as x * s + (beta - mean * s)", g.value(s).name);
  };
  if (readers.size() != 2 || of.mean == ValueId::none) return wrong();
  NodeId of_x = NodeId::none, of_mean = NodeId::none;
  for (const Use& u : readers) {
    if (!g.node(u.node).is("Mul")) return wrong();
    const ValueId other = other_input(g, u.node, s);
    (other == of.x ? of_x : of_mean) = u.node;
    if (other != of.x && other != of.mean) return wrong();
  }
  if (of_x == NodeId::none || of_mean == NodeId::none) return wrong();
  const auto difference = reader_of(g, g.node(of_mean).out()), sum = reader_of(g, g.node(of_x).out());
  if (!difference || !sum || !g.node(*difference).is("Sub") || !g.node(*sum).is("Add")) return wrong();
  const ValueId beta = g.node(*difference).in(0);
  if (g.node(*difference).in(1) != g.node(of_mean).out() || !is_scale_of(g, beta, of, variance) ||
      other_input(g, *sum, g.node(of_x).out()) != g.node(*difference).out())
    return wrong();
  t.beta = beta;
  t.nodes.insert(t.nodes.end(), {of_x, of_mean, *difference, *sum});
  t.result = g.node(*sum).out();
  return {};
}

}  // namespace

std::optional<Square> square(const Graph& g, ValueId v) {
  NodeId n;
  if (made_by(g, v, "Pow", &n) && is_scalar(g, g.node(n).in(1), 2)) return Square{n, g.node(n).in(0)};
  if (made_by(g, v, "Mul", &n) && g.node(n).in(0) == g.node(n).in(1)) return Square{n, g.node(n).in(0)};
  return {};
}

Result<Mean> mean_of(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  Mean m{n, node.in(0), 0};
  auto axes = ints(g, n, "axes", 1);
  if (!axes || !are_trailing(*axes, rank(g, m.of), &m.axes))
    return refuse(Reason::wrong_axis, n, "{} is not over the last axes", describe(g, n));
  if (node.get_int("keepdims", 1) != 1) return refuse(Reason::wrong_attribute, n, "{} has keepdims = 0", describe(g, n));
  return m;
}

std::optional<Result<Mean>> mean(const Graph& g, ValueId v) {
  NodeId n;
  if (!made_by(g, v, "ReduceMean", &n)) return {};
  return mean_of(g, n);
}

Result<NormTail> norm_tail(const Graph& g, const Mean& variance, const Numerator& of, bool with_beta) {
  NormTail t;
  const ValueId numerator = of.centred;
  ValueId at = g.node(variance.node).out();
  // The one reader of `at`, which must be one of these operators.
  auto step = [&](std::initializer_list<std::string_view> ops) -> Result<NodeId> {
    auto next = reader_of(g, at);
    if (!next) return next;
    for (std::string_view op : ops)
      if (g.node(*next).is(op)) return next;
    return refuse(Reason::wrong_reader, *next, "{} is read by {}", g.value(at).name, describe(g, *next));
  };
  auto take = [&](NodeId n) {
    t.nodes.push_back(n);
    at = g.node(n).out();
  };

  Result<NodeId> found = step({"Add"});
  if (!found) return found.refusal();
  NodeId n = *found;
  auto eps = constant_operand(g, n);
  if (!eps) {
    const ValueId computed = other_input(g, n, at);
    const NodeId maker = computed == ValueId::none ? NodeId::none : g.value(computed).producer;
    return refuse(Reason::not_constant, maker == NodeId::none ? n : maker, "epsilon is not a constant of one element");
  }
  if (eps->first < 0) return refuse(Reason::wrong_value, n, "epsilon is {}", eps->first);
  t.epsilon = eps->first;
  take(n);

  found = step({"Sqrt", "Pow"});
  if (!found) return found.refusal();
  n = *found;
  bool inverse = false;  // whether `at` is 1 / sqrt already
  if (g.node(n).is("Pow")) {
    auto exponent = scalar(g, g.node(n).in(1));
    if (!exponent || (*exponent != 0.5 && *exponent != -0.5) || g.node(n).in(0) != at)
      return refuse(Reason::wrong_value, n, "the exponent is not 1/2 or -1/2");
    inverse = *exponent == -0.5;
  }
  take(n);
  if (!inverse) {
    found = step({"Reciprocal", "Div"});
    if (!found) return found.refusal();
    n = *found;
    const bool division = g.node(n).is("Div");
    if (division && g.node(n).in(1) != at) return refuse(Reason::wrong_reader, n, "{} divides the root", describe(g, n));
    if (division && numerator != ValueId::none && g.node(n).in(0) == numerator) {
      take(n);
      t.result = at;
    } else if (division && !is_scalar(g, g.node(n).in(0), 1)) {
      return refuse(Reason::wrong_reader, n, "{} divides {}, not {}", describe(g, n), g.value(g.node(n).in(0)).name,
                    g.value(numerator == ValueId::none ? of.x : numerator).name);
    } else {
      take(n);
    }
  }
  if (t.result == ValueId::none) {
    if (const auto next = reader_of(g, at); next && g.node(*next).is("Mul"))
      if (const ValueId gamma = other_input(g, *next, at); gamma != numerator && is_scale_of(g, gamma, of, variance)) {
        t.gamma = gamma;
        take(*next);
      }
    if (numerator == ValueId::none) {
      if (auto no = spread_out(g, of, variance, at, t)) return *no;
      return t;
    }
    found = step({"Mul"});
    if (!found) return found.refusal();
    n = *found;
    if (other_input(g, n, at) != numerator)
      return refuse(Reason::wrong_reader, n, "{} multiplies another value than {}", describe(g, n), g.value(numerator).name);
    take(n);
    t.result = at;
  }

  // What may follow: casts, gamma, beta. The result is wherever that ends; a trailing cast belongs to it.
  while (!g.is_output(at)) {
    auto next = reader_of(g, at);
    if (!next) break;
    n = *next;
    const Node& node = g.node(n);
    if (node.is("Cast") && is_real(g.value(node.out()).type)) {
      if (accumulator(g.value(node.out()).type) != accumulator(g.value(at).type)) break;
    } else if (node.is("Mul") && t.gamma == ValueId::none && t.beta == ValueId::none && is_scale(g, other_input(g, n, at), at) &&
               rank(g, other_input(g, n, at)) <= variance.axes) {
      t.gamma = other_input(g, n, at);
    } else if (with_beta && node.is("Add") && t.beta == ValueId::none && is_scale(g, other_input(g, n, at), at) &&
               rank(g, other_input(g, n, at)) <= variance.axes) {
      t.beta = other_input(g, n, at);
    } else {
      break;
    }
    take(n);
    t.result = at;
  }
  return t;
}

Outcome make_norm(const Graph& g, std::string kind, ValueId x, std::vector<NodeId> nodes, const Mean& variance,
                  const NormTail& tail) {
  nodes.insert(nodes.end(), tail.nodes.begin(), tail.nodes.end());
  nodes = in_order(g, std::move(nodes));
  if (auto no = escapes(g, nodes, {tail.result})) return *no;
  const DType type = g.value(x).type;
  if (!is_real(type)) return refuse(Reason::wrong_type, g.value(x).producer, "x is {}", name(type));
  if (rank(g, tail.result) != rank(g, x))  // by a constant of more axes
    return refuse(Reason::wrong_rank, tail.nodes.back(), "the result has rank {}, x {}", rank(g, tail.result), rank(g, x));
  if (type == DType::f64 && !fits_attribute(tail.epsilon))
    return refuse(Reason::wrong_value, tail.nodes.front(), "epsilon {} has more digits than an f32 attribute", tail.epsilon);
  NodeId cast;
  if (made_by(g, x, "Cast", &cast)) {
    const ValueId from = g.node(cast).in(0);
    std::vector<NodeId> with = nodes;
    with.insert(with.begin(), cast);
    if (is_real(g.value(from).type) && accumulator(g.value(from).type) == accumulator(type) && !escapes(g, with, {tail.result})) {
      nodes = with;
      x = from;
    }
  }
  Node fused = fused_node("Norm", {x, ValueId::none, tail.gamma, tail.beta}, {tail.result});
  fused.attrs["kind"] = std::move(kind);
  fused.attrs["epsilon"] = static_cast<float>(tail.epsilon);
  fused.attrs["axis"] = static_cast<int64_t>(-variance.axes);
  if (const DType result = g.value(tail.result).type; result != g.value(x).type) {  // a cast behind it, or one before it, alone
    const DType wide = accumulator(g.value(x).type);
    expr::Program p;
    const expr::Ref in0 = p.input(wide);
    p.output(result == wide ? in0 : p.cast(in0, result));
    fused.program = std::move(p);
  }
  return replacement(nodes, fused);
}

}  // namespace smelt::fuse
