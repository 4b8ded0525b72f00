// Before   ai.smelt.QLinearConv or QLinearMatMul and what reads it: activation, Add of another dequantized tensor,
//          QuantizeLinear; behind its QuantizeLinear, a DequantizeLinear and an activation or Add of another dequantized tensor
//          up to the next one
// After    the same operator with a program that does all of it in f32, rounds and saturates where the model does, and gives
//          8 bits
// Unless   the result has another reader, or is a graph output
//          an operator is not pointwise, or quantizes with a scale for each channel
//          behind the first QuantizeLinear, more is read than one tensor of the result's shape
#include <algorithm>

#include "fuse/match/extents.h"
#include "fuse/rewrites/epilogues/epilogue.h"
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"
#include "graph/fused.h"

namespace smelt::fuse {
namespace {

/// Takes in the QuantizeLinear that alone reads the epilogue's result; the reason when there is none.
std::optional<Refusal> take_quantize(const Graph& g, Epilogue& e) {
  const auto reader = reader_of(g, e.result);
  if (!reader) return reader.refusal();
  const NodeId tail = *reader;
  if (!g.node(tail).is("QuantizeLinear") || g.node(tail).in(0) != e.result)
    return refuse(Reason::wrong_reader, tail, "{} does not quantize {}", describe(g, tail), g.value(e.result).name);
  if (auto no = not_pointwise(g, tail)) return no;
  e.nodes.push_back(tail);
  e.result = g.node(tail).out();
  return {};
}

/// Operands that the composition reads as numbers where 8 bits lie behind them: read as those. Their DequantizeLinear stays for
/// its other readers.
void read_bytes(const Graph& g, const Base& base, Epilogue& e) {
  std::vector<NodeId> all = e.nodes;
  const std::vector<ValueId> operands = compose(g, &base, e.nodes, {&e.result, 1}).operands;
  for (ValueId v : operands) {
    NodeId maker;
    // One of the base's own is read by the program that the base has already.
    const bool own = std::find(base.operands.begin(), base.operands.end(), v) != base.operands.end();
    if (own || !made_by(g, v, "DequantizeLinear", &maker) || not_pointwise(g, maker)) continue;
    all.insert(all.begin(), maker);
    if (g.only_reader(v) != NodeId::none) e.nodes.insert(e.nodes.begin(), maker);
  }
  e.composition = compose(g, &base, all, {&e.result, 1});
}

Match with_program(const Graph& g, NodeId n, const Epilogue& e) {
  Node fused = g.node(n);
  fused.order = 0;
  fused.sources.clear();
  const size_t first = first_operand(fused);
  fused.inputs.resize(first, ValueId::none);
  return with_epilogue(g, {n}, std::move(fused), first, e);
}

bool is_byte(const Graph& g, ValueId v) { return g.value(v).type == DType::u8 || g.value(v).type == DType::i8; }

/// True when what the epilogue does with `operand` is to dequantize it and add it to the dequantized base.
bool adds(const Graph& g, const Base& base, const Epilogue& e, ValueId operand) {
  const auto dequantizes = [&](ValueId v, ValueId what) {
    NodeId maker;
    return made_by(g, v, "DequantizeLinear", &maker) && g.node(maker).in(0) == what;
  };
  return std::any_of(e.nodes.begin(), e.nodes.end(), [&](NodeId n) {
    const Node& add = g.node(n);
    return add.is("Add") && ((dequantizes(add.in(0), base.value) && dequantizes(add.in(1), operand)) ||
                             (dequantizes(add.in(1), base.value) && dequantizes(add.in(0), operand)));
  });
}

/// n gives 8 bits: what follows up to a later QuantizeLinear, where one pass over the sums can do it.
Outcome behind_bytes(const Graph& g, NodeId n) {
  const Base base = base_of(g, n);
  EpilogueLimits limits;
  limits.bytes = true;
  limits.steps = 12;
  limits.accept = [&](ValueId v) {
    NodeId maker;
    const bool own = std::find(base.operands.begin(), base.operands.end(), v) != base.operands.end();
    return own || (made_by(g, v, "DequantizeLinear", &maker) && same_shape(g, v, base.value) && !depends_on(g, v, n));
  };
  Epilogue e = absorb(g, base, limits);
  const std::optional<Refusal> stopped = e.stopped;
  while (!e.nodes.empty() && !is_byte(g, e.result)) {  // back to the last value of 8 bits
    limits.steps = e.nodes.size() - 1;
    e = absorb(g, base, limits);
  }
  if (e.nodes.empty()) return stopped ? Outcome(*stopped) : Outcome(NotHere{});
  read_bytes(g, base, e);
  const auto& operands = e.composition.operands;
  size_t tensors = 0;
  for (ValueId v : operands) tensors += same_shape(g, v, base.value) ? 1 : 0;
  if (tensors > 1)
    return refuse(Reason::too_large, e.nodes.back(), "{} tensors of the result's shape behind {}, at most 1", tensors,
                  describe(g, n));
  for (size_t i = base.operands.size(); i < operands.size(); ++i)
    if (!is_byte(g, operands[i]) || !adds(g, base, e, operands[i]))
      return refuse(Reason::wrong_reader, e.nodes.front(), "{} is not added to what {} gives", g.value(operands[i]).name,
                    describe(g, n));
  return with_program(g, n, e);
}

}  // namespace

Outcome qlinear_epilogue(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("QLinearConv", smelt_domain) && !node.is("QLinearMatMul", smelt_domain)) return NotHere{};
  if (!is_real(g.value(node.out()).type)) return behind_bytes(g, n);
  const Base base = base_of(g, n);
  Epilogue e = absorb(g, base);
  if (auto no = take_quantize(g, e); no && no->reason != Reason::wrong_reader) e.stopped = *no;
  if (e.nodes.empty()) return node.program ? Outcome(NotHere{}) : Outcome(e.refusal());
  read_bytes(g, base, e);
  return with_program(g, n, e);
}

}  // namespace smelt::fuse
