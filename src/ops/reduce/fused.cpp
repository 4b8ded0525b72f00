// ai.smelt's Reduce: the program over the broadcast operands, a reduction in plain loops, the program behind it.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/core/function_body.h"
#include "ops/core/loops.h"
#include "ops/core/program.h"
#include "ops/pointwise/fused.h"
#include "ops/reduce/family.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {
namespace {

std::vector<int64_t> axes_of(const Reduction& r, int64_t rank) {
  std::vector<int64_t> axes = r.axes;
  if (axes.empty())
    for (int64_t a = 0; a < rank; ++a) axes.push_back(a);
  return normalize_axes(std::move(axes), rank);
}

template <class C> C reduce_one(ReduceKind kind, const C* values, int64_t count) {
  C r = 0;
  switch (kind) {
    case ReduceKind::sum:
      for (int64_t i = 0; i < count; ++i) r += values[i];
      return r;
    case ReduceKind::mean:
      for (int64_t i = 0; i < count; ++i) r += values[i];
      return r / static_cast<C>(count);
    case ReduceKind::prod:
      r = 1;
      for (int64_t i = 0; i < count; ++i) r *= values[i];
      return r;
    case ReduceKind::sum_square:
      for (int64_t i = 0; i < count; ++i) r += values[i] * values[i];
      return r;
    case ReduceKind::l2:
      for (int64_t i = 0; i < count; ++i) r += values[i] * values[i];
      return r < C(0) ? C(0) : static_cast<C>(std::sqrt(static_cast<double>(r)));  // a sum of integers that has wrapped has none
    case ReduceKind::max:
      r = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
      for (int64_t i = 0; i < count; ++i) r = values[i] > r || values[i] != values[i] ? values[i] : r;
      return r;
    case ReduceKind::min:
      r = std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
      for (int64_t i = 0; i < count; ++i) r = values[i] < r || values[i] != values[i] ? values[i] : r;
      return r;
  }
  return r;
}

void infer_fused_reduce(InferContext& c) {
  const Reduction r(c.node);
  const expr::Program& p = required_program(c.node);
  check_program(p, c, 0, r.inputs_before, 0);
  if (p.outputs().size() != 1) fail("the program has {} outputs, expected 1", p.outputs().size());
  DType type = p.type(p.outputs()[0]);
  if (type != DType::f32 && type != DType::f64 && !is_integer(type))
    fail("values of {} are reduced; expected f32, f64 or an integer", name(type));
  if (!r.post && c.inputs.size() > r.inputs_before) fail("operands after inputs_before need a `post` program");
  if (r.post) {
    check_program(*r.post, c, r.inputs_before, c.inputs.size(), 1);
    if (r.post->type(0) != type) fail("post's in0 is {}, but values of {} are reduced", name(r.post->type(0)), name(type));
    if (r.post->outputs().size() != 1) fail("post has {} outputs, expected 1", r.post->outputs().size());
    type = r.post->type(r.post->outputs()[0]);
  }
  const auto before = operand_shape(c, 0, r.inputs_before), after = operand_shape(c, r.inputs_before, c.inputs.size());
  if (!before || !after) return c.set_type(0, type);
  const Shape reduced = reduced_shape(*before, axes_of(r, static_cast<int64_t>(before->size())), r.keepdims);
  const Shape both[] = {reduced, *after};
  c.set(0, type, broadcast_all(both));
}

void run_fused_reduce(ComputeContext& c) {
  const Reduction r(c.node);
  const auto before = c.inputs.first(r.inputs_before), after = c.inputs.subspan(r.inputs_before);
  const Shape shape = broadcast_shape(before);
  const Tensor values = evaluate_program(required_program(c.node), before, shape)[0];
  const auto axes = axes_of(r, static_cast<int64_t>(shape.size()));
  Tensor reduced = Tensor::empty(values.type(), reduced_shape(shape, axes, r.keepdims));
  dispatch(values.type(), "ai.smelt.Reduce", [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const ReductionNest nest = reduction_nest(shape, axes);
      std::vector<T> gathered;
      nest.for_each_result([&](int64_t result, int64_t begin) {
        gathered.clear();
        nest.reduced.for_each_run([&](std::span<const int64_t> at) {
          for (int64_t i = 0; i < nest.reduced.run(); ++i)
            gathered.push_back(values.data<T>()[begin + at[0] + i * nest.reduced.stride(0)]);
        });
        reduced.data<T>()[result] = reduce_one(r.kind, gathered.data(), nest.count);
      });
    } else {
      fail_dispatch(values.type(), "ai.smelt.Reduce");
    }
  });
  if (!r.post) {
    c.outputs[0] = reduced;
    return;
  }
  std::vector<Tensor> inputs = {reduced};
  inputs.insert(inputs.end(), after.begin(), after.end());
  c.outputs[0] = evaluate_program(*r.post, inputs, broadcast_shape(inputs))[0];
}

std::vector<ValueId> expand_reduce(Body& b) {
  const Reduction r(b.node());
  std::vector<ValueId> before, after;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) (i < r.inputs_before ? before : after).push_back(b.in(i));
  const ValueId body = full_outputs(b, required_program(b.node()), before)[0];
  std::vector<int64_t> axes = r.axes;
  const ValueId reduced = axes.empty() ? b.op(std::string(r.onnx()), {body}, {{"keepdims", int64_t{r.keepdims}}})
                                       : b.op(std::string(r.onnx()), {body, b.ints(axes)}, {{"keepdims", int64_t{r.keepdims}}});
  if (!r.post) return {b.cast(reduced, b.output_type())};
  after.insert(after.begin(), reduced);
  return b.program(*r.post, after);
}

}  // namespace

std::span<const OpRow> fused_reduce_ops() {
  static constexpr OpRow table[] = {
      {{"Reduce", smelt_domain, infer_fused_reduce, run_fused_reduce, true, expand_reduce}, {.flops = {.of_input = 1}}},
  };
  return table;
}

}  // namespace smelt::ops
