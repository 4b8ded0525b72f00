// Pointwise and Reduce: the program over the broadcast operands, a reduction in plain loops, the program behind it.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/program.h"
#include "ops/fused/reference.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {
namespace {

/// The broadcast of inputs [from, to); nothing where a shape is not known.
std::optional<Shape> operand_shape(const InferContext& c, size_t from, size_t to) {
  std::vector<Shape> shapes;
  for (size_t i = from; i < to; ++i) {
    if (!c.in(i).present()) fail("operand {} is left out", i);
    if (!c.in(i).shape_known) return std::nullopt;
    shapes.push_back(c.in(i).shape);
  }
  return broadcast_all(shapes);
}

void check_program(const expr::Program& p, const InferContext& c, size_t from, size_t to, size_t own) {
  if (static_cast<size_t>(p.input_count()) != own + to - from)
    fail("the program has {} inputs, expected {}", p.input_count(), own + to - from);
  for (size_t i = from; i < to; ++i) {
    const DType wanted = p.type(static_cast<expr::Ref>(own + i - from));
    if (c.in(i).present() && c.in(i).type != wanted)
      fail("operand {} is {}, the program takes {}", i, name(c.in(i).type), name(wanted));
  }
}

Shape shape_of(std::span<const Tensor> tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& t : tensors) shapes.push_back(t.shape());
  return broadcast_all(shapes);
}

const expr::Program& program_of(const Node& n) {
  if (!n.program || n.program->outputs().empty()) fail("it needs a program with an output");
  return *n.program;
}

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
      return static_cast<C>(std::sqrt(static_cast<double>(r)));
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

}  // namespace

void infer_pointwise(InferContext& c) {
  const expr::Program& p = program_of(c.node);
  check_program(p, c, 0, c.inputs.size(), 0);
  if (p.outputs().size() != c.outputs.size())
    fail("the program has {} outputs, the node {}", p.outputs().size(), c.outputs.size());
  const auto shape = operand_shape(c, 0, c.inputs.size());
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    const DType type = p.type(p.outputs()[o]);
    if (shape)
      c.set(o, type, *shape);
    else
      c.set_type(o, type);
  }
}

void run_pointwise(ComputeContext& c) {
  const auto results = evaluate_program(program_of(c.node), c.inputs, shape_of(c.inputs));
  for (size_t o = 0; o < c.outputs.size(); ++o) c.outputs[o] = results[o];
}

void infer_reduce(InferContext& c) {
  const Reduction r(c.node);
  const expr::Program& p = program_of(c.node);
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

void run_reduce(ComputeContext& c) {
  const Reduction r(c.node);
  const auto before = c.inputs.first(r.inputs_before), after = c.inputs.subspan(r.inputs_before);
  const Shape shape = shape_of(before);
  const Tensor values = evaluate_program(program_of(c.node), before, shape)[0];
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
  c.outputs[0] = evaluate_program(*r.post, inputs, shape_of(inputs))[0];
}

}  // namespace smelt::ops
