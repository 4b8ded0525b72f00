#include "fuse/rewrites/epilogues/epilogue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "fuse/match/extents.h"
#include "fuse/match/pointwise.h"
#include "graph/fused.h"

namespace smelt::fuse {
namespace {

bool contains(const std::vector<NodeId>& nodes, NodeId n) { return std::find(nodes.begin(), nodes.end(), n) != nodes.end(); }

/// Of the nodes that read v and are not taken in yet, the one that comes first in the graph; none where there is none.
NodeId outside_reader(const Graph& g, ValueId v, const std::vector<NodeId>& taken) {
  NodeId first = NodeId::none;
  for (const Use& u : g.readers(v))
    if ((first == NodeId::none || g.node(u.node).order < g.node(first).order) && !contains(taken, u.node)) first = u.node;
  return first;
}

bool has_outside_reader(const Graph& g, ValueId v, const std::vector<NodeId>& taken) {
  return std::ranges::any_of(g.readers(v), [&](const Use& u) { return !contains(taken, u.node); });
}

/// Whether node n, which reads a value of y's shape, can be computed in the program; the reason if not.
std::optional<Refusal> refusal(const Graph& g, NodeId n, ValueId y, const std::vector<ValueId>& inside, bool bytes) {
  if (auto no = not_pointwise(g, n)) return refuse(Reason::wrong_reader, n, "{}", no->text);
  if (g.node(n).outputs.size() != 1)
    return refuse(Reason::wrong_reader, n, "{} has {} outputs", describe(g, n), g.node(n).outputs.size());
  ValueId out = g.node(n).out();
  const DType type = g.value(out).type;
  const bool fits = is_real(type) || (bytes && (type == DType::u8 || type == DType::i8));
  if (!fits || accumulator(g.value(out).type) != accumulator(g.value(y).type))
    return refuse(Reason::wrong_type, n, "{} gives {}, which an epilogue over {} cannot", describe(g, n), name(g.value(out).type),
                  name(g.value(y).type));
  auto shape = extents(g, y);
  if (!shape) return refuse(Reason::unknown_shape, n, "the rank of {} is not known", g.value(y).name);
  const NodeId fused = g.value(inside.front()).producer;
  for (ValueId v : operands_of(g, n)) {
    if (std::find(inside.begin(), inside.end(), v) != inside.end()) continue;
    // A second output (a normalisation's sum) may come round to here.
    if (fused != NodeId::none && g.node(fused).outputs.size() > 1 && depends_on(g, v, fused))
      return refuse(Reason::wrong_producer, n, "{} comes of {} too", g.value(v).name, describe(g, fused));
    auto operand = extents(g, v);
    if (!operand) return refuse(Reason::unknown_shape, n, "the rank of {} is not known", g.value(v).name);
    if (!broadcasts_to(*operand, *shape))
      return refuse(Reason::wrong_shape, n, "{} {} does not broadcast to {}", g.value(v).name, to_string(*operand),
                    to_string(*shape));
  }
  if (!same_shape(g, out, y)) {
    // Every operand broadcasts to y's shape and one has it, so that the result has it too; unless a constant raises the rank.
    if (rank(g, out) != rank(g, y))
      return refuse(Reason::wrong_rank, n, "{} has rank {}, not {}", g.value(out).name, rank(g, out), rank(g, y));
  }
  return {};
}

/// The next nodes to take in after `y`: one reader, or a few that lead from y to one value again (x * tanh(softplus(x))).
/// The reason when there are none.
Result<std::vector<NodeId>> next_nodes(const Graph& g, ValueId y, const std::vector<ValueId>& inside_before, bool bytes) {
  constexpr size_t most = 8;
  if (g.is_output(y)) return refuse(Reason::graph_output, g.value(y).producer, "{} is a graph output", g.value(y).name);
  std::vector<NodeId> taken;
  std::vector<ValueId> inside = inside_before, open{y};
  while (taken.size() < most) {
    // The reader that comes first in the graph, of any value that is still read outside.
    NodeId next = NodeId::none;
    for (ValueId v : open) {
      const NodeId r = outside_reader(g, v, taken);
      if (r != NodeId::none && (next == NodeId::none || g.node(r).order < g.node(next).order)) next = r;
    }
    if (next == NodeId::none) return refuse(Reason::wrong_reader, g.value(y).producer, "{} is not read", g.value(y).name);
    if (auto no = refusal(g, next, y, inside, bytes)) {
      if (g.readers(y).size() > 1)
        return refuse(Reason::extra_reader, next, "{} has {}; {}", g.value(y).name, readers_text(g.readers(y).size()), no->text);
      return *no;
    }
    taken.push_back(next);
    inside.push_back(g.node(next).out());
    open.push_back(g.node(next).out());
    std::erase_if(open,
                  [&](ValueId v) { return !g.is_output(v) && !has_outside_reader(g, v, taken) && v != g.node(next).out(); });
    if (open.size() == 1) return taken;
    for (ValueId v : open)
      if (g.is_output(v) && v != g.node(next).out())
        return refuse(Reason::graph_output, g.value(v).producer, "{} is a graph output", g.value(v).name);
  }
  return refuse(Reason::extra_reader, taken.front(), "{} has {}", g.value(y).name, readers_text(g.readers(y).size()));
}

/// A Gemm with C, or a convolution with B.
bool is_product_with_bias(const Node& n) {
  return n.domain == onnx_domain && (n.op == "Gemm" || n.op == "Conv" || n.op == "ConvTranspose") && n.in(2) != ValueId::none;
}

/// Nodes that make a small operand of another one by one or two operations, for this operator alone.
std::vector<NodeId> cheap_makers(const Graph& g, const std::vector<ValueId>& operands, const std::vector<NodeId>& readers,
                                 ValueId y) {
  std::vector<NodeId> found;
  for (ValueId v : operands) {
    NodeId maker = g.value(v).producer;
    if (maker == NodeId::none || g.is_output(v) || has_outside_reader(g, v, readers) || same_shape(g, v, y)) continue;
    if (!is_pointwise(g, maker) || g.node(maker).outputs.size() != 1 || !is_real(g.value(v).type)) continue;
    auto reads = operands_of(g, maker);
    if (reads.size() != 1 || !is_real(g.value(reads[0]).type)) continue;
    if (compose(g, nullptr, std::span(&maker, 1), std::span(&v, 1)).program.operations() <= 4) found.push_back(maker);
  }
  return found;
}

}  // namespace

Base base_of(const Graph& g, NodeId fused) {
  const Node& n = g.node(fused);
  Base b;
  b.value = n.out();
  const size_t first = first_operand(n);
  if (n.program)
    b.program = *n.program;
  else
    b.program = expr::conversion(accumulator(g.value(n.out()).type), g.value(n.out()).type);
  if (n.inputs.size() > first) b.operands.assign(n.inputs.begin() + static_cast<std::ptrdiff_t>(first), n.inputs.end());
  return b;
}

Epilogue absorb(const Graph& g, const Base& base, const EpilogueLimits& limits) {
  Epilogue e;
  e.result = base.value;
  std::vector<ValueId> inside{base.value};
  e.composition = {base.program, base.operands};
  while (e.nodes.size() < limits.steps) {
    auto next = next_nodes(g, e.result, inside, limits.bytes);
    if (!next) {
      e.stopped = next.refusal();
      break;
    }
    std::vector<NodeId> nodes = e.nodes;
    nodes.insert(nodes.end(), next->begin(), next->end());
    if (nodes.size() > limits.steps) break;
    const ValueId result = g.node(nodes.back()).out();
    Body c = compose(g, &base, nodes, std::span(&result, 1));
    if (auto bad =
            std::find_if_not(c.operands.begin(), c.operands.end(), [&](ValueId v) { return !limits.accept || limits.accept(v); });
        bad != c.operands.end()) {
      e.stopped = refuse(Reason::wrong_shape, g.value(*bad).producer, "{} cannot be an operand here", g.value(*bad).name);
      break;
    }
    if (c.operands.size() > limits.operands || c.program.operations() > limits.operations) {
      e.stopped = refuse(Reason::too_large, nodes.back(), "{} operands and {} operations, at most {} and {}", c.operands.size(),
                         c.program.operations(), limits.operands, limits.operations);
      break;
    }
    e.nodes = nodes;
    e.result = result;
    e.composition = std::move(c);
    for (NodeId n : nodes) inside.push_back(g.node(n).out());
  }
  if (e.nodes.empty() || limits.accept) return e;
  std::vector<NodeId> makers = cheap_makers(g, e.composition.operands, e.nodes, e.result);
  if (!makers.empty()) {
    e.nodes.insert(e.nodes.begin(), makers.begin(), makers.end());
    e.composition = compose(g, &base, e.nodes, std::span(&e.result, 1));
  }
  return e;
}

std::string form_of(const Graph& g, const std::vector<NodeId>& own, const Epilogue& e) {
  std::vector<std::string> parts;
  for (NodeId n : own)
    if (is_product_with_bias(g.node(n))) parts.push_back("bias");
  for (NodeId n : e.nodes) {
    const Node& node = g.node(n);
    std::string part = node.op;
    std::ranges::transform(part, part.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (node.is("Pointwise", smelt_domain)) {
      for (const expr::Instruction& i : node.program->code())
        if (i.fn > expr::Fn::cast) part = expr::info(i.fn).name;
    } else if (node.is("Add") || node.is("Sub")) {
      bool constant = false, residual = true;
      for (ValueId v : node.inputs) {
        constant |= g.value(v).is_constant() && g.value(v).constant.size() > 1;
        residual &= same_shape(g, v, node.out());
      }
      if (constant)
        part = "bias";
      else if (residual)
        part = "residual";
    }
    parts.push_back(part);
  }
  return fmt::format("{}", fmt::join(parts, " + "));
}

Match with_epilogue(const Graph& g, std::vector<NodeId> own, Node fused, size_t first_operand, const Epilogue& e) {
  const ValueId none = ValueId::none;
  fused.inputs.resize(first_operand, none);
  fused.inputs.insert(fused.inputs.end(), e.composition.operands.begin(), e.composition.operands.end());
  while (!fused.inputs.empty() && fused.inputs.back() == none) fused.inputs.pop_back();
  fused.outputs[0] = e.result;
  fused.program = e.composition.program;
  std::string form = form_of(g, own, e);
  own.insert(own.end(), e.nodes.begin(), e.nodes.end());
  std::vector<NodeId> nodes = in_order(g, std::move(own));
  return replacement(nodes, fused, std::move(form));
}

}  // namespace smelt::fuse
