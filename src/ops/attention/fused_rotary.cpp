// ai.smelt's RotaryEmbedding: x · cos + rotated(x) · sin. JoinedRotary: of two x by the same tables.
#include "base/error.h"
#include "graph/fused.h"
#include "ops/attention/family.h"
#include "ops/attention/shape.h"
#include "ops/core/flops.h"
#include "ops/core/function_body.h"
#include "ops/core/loops.h"

namespace smelt::ops {

Shape rotary_table_shape(const Shape& table, const Shape& x) {
  Shape to = x;
  if (!table.empty() && table.back() == x.back() / 2) to.back() /= 2;
  if (broadcast(table, to) != to)
    fail("a table of shape {} fits neither {} nor half its last extent", to_string(table), to_string(x));
  return to;
}

namespace {

/// Of the node's input `x`, turned by `tables` and the input behind it.
void infer_turned(InferContext& c, size_t x_input, size_t tables, size_t output) {
  const TensorDesc& x = c.in(x_input);
  if (!x.present()) fail("input {} is required and was left out", x_input);
  if (!x.shape_known) return c.set_type(output, x.type);
  if (x.shape.empty() || x.shape.back() % 2) fail("x has shape {}, expected an even last extent", to_string(x.shape));
  for (size_t i = tables; i < tables + 2; ++i)
    if (c.in(i).shape_known) rotary_table_shape(c.in(i).shape, x.shape);
  c.set(output, x.type, x.shape);
}
void infer_fused_rotary(InferContext& c) { infer_turned(c, 0, 1, 0); }
void infer_joined_rotary(InferContext& c) {
  infer_turned(c, 0, 2, 0);
  infer_turned(c, 1, 2, 1);
}

template <class C> void rotary(ComputeContext& c, size_t x_input, size_t first_table, size_t output) {
  const Shape& shape = c.in(x_input).shape();
  const bool interleaved = c.node.get_int("interleaved", 0) != 0;
  const int64_t d = shape.back(), half = d / 2, rows = elements(shape) / (d ? d : 1);
  const auto x = spread<C>(c.in(x_input), shape);
  std::vector<C> tables[2];
  bool halved[2];
  for (size_t t = 0; t < 2; ++t) {
    const Tensor& table = c.in(first_table + t);
    const Shape to = rotary_table_shape(table.shape(), shape);
    halved[t] = to.back() != d;
    tables[t] = spread<C>(table, to);
  }
  Tensor y = Tensor::empty(dtype_of<C>::value, shape);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < d; ++i) {
      // Where the rotated partner of element i is, and its sign.
      const bool first = interleaved ? i % 2 == 0 : i < half;
      const int64_t partner = interleaved ? i ^ 1 : (i + half) % d;
      const C rotated = first ? -x[static_cast<size_t>(r * d + partner)] : x[static_cast<size_t>(r * d + partner)];
      auto entry = [&](size_t t) {
        const int64_t at = halved[t] ? r * half + (interleaved ? i / 2 : i % half) : r * d + i;
        return tables[t][static_cast<size_t>(at)];
      };
      y.data<C>()[r * d + i] = x[static_cast<size_t>(r * d + i)] * entry(0) + rotated * entry(1);
    }
  }
  c.outputs[output] = y.cast(c.outputs[output].type());
}

void turn(ComputeContext& c, size_t x, size_t tables, size_t output) {
  if (accumulator(c.outputs[output].type()) == DType::f64)
    rotary<double>(c, x, tables, output);
  else
    rotary<float>(c, x, tables, output);
}
void run_fused_rotary(ComputeContext& c) { turn(c, 0, 1, 0); }
void run_joined_rotary(ComputeContext& c) {
  turn(c, 0, 2, 0);
  turn(c, 1, 2, 1);
}

ValueId turned(Body& b, size_t x_input, size_t tables, size_t output) {
  const DType c = b.accumulator();
  const bool interleaved = b.node().get_int("interleaved", 0);
  const ValueId x = b.cast(b.in(x_input), c), last = b.ints({-1}), first = b.ints({0}), two = b.ints({2}),
                end = b.ints({INT64_MAX});
  const int64_t depth = b.extent(x_input, -1);
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
  const ValueId y = b.op("Add", {b.op("Mul", {x, table(tables)}), b.op("Mul", {rotated, table(tables + 1)})});
  return b.cast(y, b.output_type(output));
}
std::vector<ValueId> expand_rotary(Body& b) { return {turned(b, 0, 1, 0)}; }
std::vector<ValueId> expand_joined_rotary(Body& b) { return {turned(b, 0, 2, 0), turned(b, 1, 2, 1)}; }

}  // namespace

namespace {

int64_t joined_rotary_flops(const BoundNode& b) { return 3 * (elements(input_of(b, 0).shape) + elements(input_of(b, 1).shape)); }

}  // namespace

std::span<const OpRow> fused_rotary_ops() {
  static constexpr OpRow table[] = {
      {{"RotaryEmbedding", smelt_domain, infer_fused_rotary, run_fused_rotary, true, expand_rotary},
       {.shape = OutShape::input, .flops = {.of_input = 3}}},
      {{"JoinedRotary", smelt_domain, infer_joined_rotary, run_joined_rotary, true, expand_joined_rotary},
       {.flops = {.count = joined_rotary_flops}}},
  };
  return table;
}

}  // namespace smelt::ops
