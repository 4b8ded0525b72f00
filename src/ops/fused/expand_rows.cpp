// Bodies of what works along rows: normalisation, attention, rotary embedding.
#include "base/error.h"
#include "ops/core/function_body.h"

namespace smelt::ops {

std::vector<ValueId> expand_norm(Body& b) {
  const Node& n = b.node();
  const std::string kind = n.get_string("kind", "");
  if (kind != "rms" && kind != "layer") fail("kind = '{}', expected 'rms' or 'layer'", kind);
  const DType c = b.accumulator();
  const int64_t axis = n.get_int("axis", -1), first = axis < 0 ? axis : normalize_axis(axis, b.rank(0)) - b.rank(0);
  constexpr int64_t most = 64;  // axes of any tensor
  if (first < -most || first >= 0) fail("axis = {}, which is none of the last {} axes", axis, most);
  std::vector<int64_t> axes;
  for (int64_t a = first; a < 0; ++a) axes.push_back(a);
  auto mean = [&](ValueId v) { return b.op("ReduceMean", {v, b.ints(axes)}, {{"keepdims", int64_t{1}}}); };

  const ValueId sum = b.has(1) ? b.op("Add", {b.in(0), b.in(1)}) : b.in(0);
  ValueId x = b.cast(sum, c);
  if (kind == "layer") x = b.op("Sub", {x, mean(x)});
  const ValueId variance = mean(b.op("Mul", {x, x}));
  const ValueId deviation = b.op("Sqrt", {b.op("Add", {variance, b.number(c, n.get_float("epsilon", 1e-5f))})});
  ValueId y = b.op("Div", {x, deviation});
  if (b.has(2)) y = b.op("Mul", {y, b.cast(b.in(2), c)});
  if (b.has(3)) y = b.op("Add", {y, b.cast(b.in(3), c)});
  std::vector<ValueId> outputs = {b.epilogue(y, 4)};
  if (n.outputs.size() > 1) outputs.push_back(n.outputs[1] == ValueId::none ? ValueId::none : sum);
  return outputs;
}

namespace {

/// Keys or values of Hk heads seen as Hq: each head repeated Hq / Hk times. Heads that are no numbers are as many on both sides:
/// no rewrite takes others.
ValueId repeat_heads(Body& b, ValueId v, size_t input) {
  if (!b.shape(0)[1].known() && !b.shape(input)[1].known()) return v;
  const int64_t heads = b.extent(0, 1), own = b.extent(input, 1);
  if (own == heads) return v;
  if (own == 0 || heads % own != 0) fail("{} query heads over {} heads of input {}, expected a multiple", heads, own, input);
  const ValueId grouped = b.op("Expand", {b.op("Unsqueeze", {v, b.ints({2})}), b.ints({1, 1, heads / own, 1, 1})});
  // One of the last two extents must be a number for the other to be worked out.
  const SymShape& s = b.shape(input);
  if (s[3].known()) return b.op("Reshape", {grouped, b.ints({0, heads, -1, s[3].value})});
  return b.op("Reshape", {grouped, b.ints({0, heads, b.extent(input, 2), -1})});
}

}  // namespace

std::vector<ValueId> expand_attention(Body& b) {
  const Node& n = b.node();
  const DType c = b.accumulator();
  for (size_t i = 0; i < 3; ++i)
    if (b.rank(i) != 4) fail("input {} has rank {}, expected 4", i, b.rank(i));
  ValueId k = repeat_heads(b, b.cast(b.in(1), c), 1);
  if (!n.get_int("k_transposed", 0)) k = b.transpose(k, {0, 1, 3, 2});
  const ValueId v = repeat_heads(b, b.cast(b.in(2), c), 2);
  ValueId scores = b.op("Mul", {b.op("MatMul", {b.cast(b.in(0), c), k}), b.number(c, n.get_float("scale", 1))});
  if (n.program) {
    std::vector<ValueId> inputs = {scores};
    for (size_t i = 3; i < n.inputs.size(); ++i) inputs.push_back(b.in(i));
    scores = b.program(*n.program, inputs)[0];
  }
  ValueId weights = b.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (n.get_int("nan_guard", 0)) weights = b.op("Where", {b.op("IsNaN", {weights}, DType::boolean), b.number(c, 0), weights}, c);
  return {b.cast(b.op("MatMul", {weights, v}), b.output_type())};
}

std::vector<ValueId> expand_rotary(Body& b) {
  const DType c = b.accumulator();
  const bool interleaved = b.node().get_int("interleaved", 0);
  const ValueId x = b.cast(b.in(0), c), last = b.ints({-1}), first = b.ints({0}), two = b.ints({2}), end = b.ints({INT64_MAX});
  const int64_t depth = b.extent(0, -1);
  if (depth % 2) fail("the last extent is {}, expected an even one", depth);

  /// Every second element along the last axis, from `from` on.
  auto every_second = [&](int64_t from) { return b.op("Slice", {x, b.ints({from}), end, last, two}); };
  /// (a0, c0, a1, c1, …) along the last axis: the last extent doubled.
  auto interleave = [&](ValueId u, ValueId w) {
    const ValueId pairs = b.op("Concat", {b.op("Unsqueeze", {u, last}), b.op("Unsqueeze", {w, last})}, {{"axis", int64_t{-1}}});
    const ValueId lead = b.op("Slice", {b.op("Shape", {u}, DType::i64), first, last, first});
    return b.op("Reshape", {pairs, b.op("Concat", {lead, b.ints({-1})}, {{"axis", int64_t{0}}})});
  };
  auto table = [&](size_t input) {
    const ValueId t = b.cast(b.in(input), c);
    if (b.extent(input, -1) == depth || b.extent(input, -1) == 1) return t;
    return interleaved ? interleave(t, t) : b.op("Concat", {t, t}, {{"axis", int64_t{-1}}});
  };

  ValueId rotated;
  if (interleaved) {
    const ValueId odd = every_second(1);
    rotated = interleave(b.op("Neg", {odd}), every_second(0));
  } else {
    const std::vector<ValueId> halves = b.split(x, 2, -1);
    rotated = b.op("Concat", {b.op("Neg", {halves[1]}), halves[0]}, {{"axis", int64_t{-1}}});
  }
  const ValueId y = b.op("Add", {b.op("Mul", {x, table(1)}), b.op("Mul", {rotated, table(2)})});
  return {b.cast(y, b.output_type())};
}

}  // namespace smelt::ops
