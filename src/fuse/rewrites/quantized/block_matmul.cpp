// Before   MatMul(a, w) or Gemm(a, w, c), w = Transpose(DequantizeLinear(q)) with blocks along K; between the two, a Slice that takes
//          padding off K; or w = DequantizeLinear(q), q being [K, N] (or of a Gemm that transposes, [N, K])
// After    ai.smelt.BlockMatMul(a, q) with c in its program; a q of [K, N] is transposed
// Unless   q, its scale or its zero point is computed, or the blocks are along N
//          no kernel takes q's type, its blocks or its rows; a Gemm transposes a
//          the weights are few: as floats they stay in the caches
//          the products run where no kernel takes weights in blocks (a GPU)
#include <algorithm>

#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/matmul/block_problem.h"

namespace smelt::fuse {
namespace {

struct BlockWeights {
  NodeId dequantize;
  std::vector<NodeId> nodes;  // that lead from it to the product, and serve nothing else
  bool by_columns = false;    // q is [K, N]
  int64_t k = 0, n = 0, row = 0, block = 0;
};

/// The extent that a Slice leaves of axis 1, from 0 on; nothing where it does anything else.
std::optional<int64_t> kept_columns(const Graph& g, NodeId slice, int64_t columns) {
  const auto is = [&](size_t input, int64_t expected) {
    const auto v = ints(g, slice, "", input);
    return v && *v == std::vector<int64_t>{expected};
  };
  const auto end = ints(g, slice, "", 2);
  const bool has_step = g.node(slice).in(4) != ValueId::none;
  if (!is(1, 0) || !end || end->size() != 1 || !is(3, 1) || (has_step && !is(4, 1))) return std::nullopt;
  const int64_t kept = std::min((*end)[0], columns);
  return kept > 0 ? std::optional(kept) : std::nullopt;
}

/// What leads to the product's right operand. No refusal where nothing in blocks does: NotHere.
std::variant<NotHere, Refusal, BlockWeights> block_weights(const Graph& g, ValueId v, bool transposed) {
  BlockWeights w;
  bool alone = true;
  const auto through = [&](NodeId n) {
    alone = alone && g.only_reader(v) != NodeId::none;
    if (alone) w.nodes.push_back(n);
    v = g.node(n).in(0);
  };
  NodeId node;
  if (made_by(g, v, "Transpose", &node)) {
    if (rank(g, v) != 2 || g.node(node).get_ints("perm") == std::vector<int64_t>{0, 1}) return NotHere{};
    transposed = !transposed;
    through(node);
  }
  NodeId slice = NodeId::none;
  if (made_by(g, v, "Slice", &node)) {
    slice = node;
    through(node);
  }
  if (!made_by(g, v, "DequantizeLinear", &w.dequantize)) return NotHere{};
  const Node& d = g.node(w.dequantize);
  w.block = d.get_int("block_size", 0);
  if (w.block < 1) return NotHere{};
  for (size_t i = 0; i < 3; ++i)
    if (d.in(i) != ValueId::none && !g.value(d.in(i)).is_constant())
      return refuse(Reason::not_constant, w.dequantize, "{} is computed", g.value(d.in(i)).name);
  const Shape& q = g.constant(w.dequantize, 0).shape();
  if (q.size() != 2) return refuse(Reason::wrong_rank, w.dequantize, "{} has rank {}", g.value(d.in(0)).name, q.size());
  const int64_t axis = d.get_int("axis", 1), along = axis < 0 ? axis + 2 : axis;
  w.by_columns = !transposed;
  if (along != (w.by_columns ? 0 : 1)) return refuse(Reason::wrong_axis, w.dequantize, "its blocks are not along K");
  w.n = w.by_columns ? q[1] : q[0];
  w.row = w.k = w.by_columns ? q[0] : q[1];
  if (slice != NodeId::none) {
    const auto kept = kept_columns(g, slice, w.row);
    if (w.by_columns || !kept || w.row - *kept >= w.block)
      return refuse(Reason::wrong_producer, slice, "{} takes off more than padding", describe(g, slice));
    w.k = *kept;
  }
  through(w.dequantize);
  std::ranges::reverse(w.nodes);
  if (auto no = ops::matmul::rejects_blocks(g.value(d.in(0)).type, w.row, w.block)) {
    no->blocker = w.dequantize;
    return *no;
  }
  return w;
}

/// A matrix of elements of 2, 4 or 8 bits, its rows as columns.
Tensor transposed(const Tensor& from) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1], width = bits(from.type());
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  Tensor to = Tensor::zeros(from.type(), {columns, rows});
  const auto* in = static_cast<const uint8_t*>(from.raw());
  auto* out = static_cast<uint8_t*>(to.raw());
  constexpr int64_t tile = 128;  // columns at a time, whose places in `to` stay in the L1 cache
  for (int64_t first = 0; first < columns; first += tile)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = first; c < std::min(columns, first + tile); ++c) {
        const int64_t i = (r * columns + c) * width, o = (c * rows + r) * width;
        out[o / 8] = static_cast<uint8_t>(out[o / 8] | ((in[i / 8] >> i % 8) & mask) << o % 8);
      }
  return to;
}

Tensor transposed_floats(const Tensor& from) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1];
  const Tensor wide = from.cast(DType::f32);
  Tensor to = Tensor::empty(DType::f32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to.data<float>()[c * rows + r] = wide.data<float>()[r * columns + c];
  return to.cast(from.type());
}

/// in0 · alpha + c · beta; nothing where that is in0.
std::optional<expr::Program> gemm_program(const Graph& g, const Node& n) {
  const float alpha = n.get_float("alpha", 1), beta = n.get_float("beta", 1);
  const ValueId c = n.is("Gemm") ? n.in(2) : ValueId::none;
  if (alpha == 1 && c == ValueId::none) return std::nullopt;
  expr::Program p;
  expr::Ref y = p.input(DType::f32), addend = c == ValueId::none ? -1 : p.cast(p.input(g.value(c).type), DType::f32);
  if (alpha != 1) y = p.call(expr::Fn::mul, y, p.constant(DType::f32, alpha));
  if (addend >= 0 && beta != 1) addend = p.call(expr::Fn::mul, addend, p.constant(DType::f32, beta));
  if (addend >= 0) y = p.call(expr::Fn::add, y, addend);
  p.output(p.cast(y, g.value(n.out()).type));
  return p;
}

}  // namespace

Outcome block_matmul(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool gemm = node.is("Gemm");
  if (!node.is("MatMul") && !gemm) return NotHere{};
  auto found = block_weights(g, node.in(1), gemm && node.get_int("transB", 0));
  if (std::holds_alternative<NotHere>(found)) return NotHere{};
  if (const auto* no = std::get_if<Refusal>(&found)) return *no;
  const BlockWeights& w = std::get<BlockWeights>(found);
  if (gemm && node.get_int("transA", 0)) return refuse(Reason::wrong_attribute, n, "{} transposes a", describe(g, n));
  const DType type = g.value(node.out()).type;
  if (type == DType::f64 || !is_real(type)) return refuse(Reason::wrong_type, n, "the product is {}", name(type));
  if (rank(g, node.in(0)) < 2)
    return refuse(Reason::wrong_rank, n, "{} is a vector, or of unknown rank", g.value(node.in(0)).name);
  constexpr int64_t few = 1 << 16;
  if (w.n * w.k < few) return refuse(Reason::not_profitable, n, "{} x {} weights; blocks pay from {} on", w.n, w.k, few);

  std::vector<NodeId> nodes = w.nodes;
  nodes.push_back(n);
  return Match{nodes, [n, w, nodes, program = gemm_program(g, node)](Graph& graph) {
                 const Node old = graph.node(n), dequantize = graph.node(w.dequantize);
                 const auto by_rows = [&](size_t i, Tensor (*how)(const Tensor&)) {
                   const ValueId v = dequantize.in(i);
                   if (v == ValueId::none || !w.by_columns) return v;
                   return graph.add_constant(graph.value(v).name + "_by_rows", how(graph.value(v).constant));
                 };
                 const ValueId q = by_rows(0, transposed), scale = by_rows(1, transposed_floats), zero = by_rows(2, transposed);
                 Node fused = fused_node("BlockMatMul", {old.in(0), q, scale, zero, old.is("Gemm") ? old.in(2) : ValueId::none},
                                         {old.out()});
                 fused.attrs["block_size"] = w.block;
                 if (w.k < w.row) fused.attrs["K"] = w.k;
                 if (const int64_t level = dequantize.get_int("accuracy_level", 0)) fused.attrs["accuracy_level"] = level;
                 fused.program = program;
                 return replace(graph, nodes, fused);
               }};
}

Outcome block_matmul_nowhere(const Graph& g, NodeId n) {
  Outcome outcome = block_matmul(g, n);
  if (!std::holds_alternative<Match>(outcome)) return outcome;
  return refuse(Reason::wrong_machine, n, "a GPU has no kernel of weights in blocks");
}

}  // namespace smelt::fuse
