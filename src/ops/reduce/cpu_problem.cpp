// A node's reduction as the CPU's kernel folds it.
#include <algorithm>

#include "base/value_of.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/fused.h"
#include "ops/reduce/cpu_reduce.h"

namespace smelt::ops {
namespace {

struct OnnxReduction {
  std::string_view op;
  ReduceKind kind;
  bool real = false;                  // integers are computed in f64
  expr::Fn first = expr::Fn::input;   // of each element, where it is another one
  expr::Fn finish = expr::Fn::input;  // of the result, likewise
};
constexpr OnnxReduction onnx_reductions[] = {
    {"ReduceSum", ReduceKind::sum},
    {"ReduceMean", ReduceKind::mean},
    {"ReduceMax", ReduceKind::max},
    {"ReduceMin", ReduceKind::min},
    {"ReduceProd", ReduceKind::prod},
    {"ReduceSumSquare", ReduceKind::sum_square},
    {"ReduceL1", ReduceKind::sum, false, expr::Fn::abs},
    {"ReduceL2", ReduceKind::l2, true},
    {"ReduceLogSum", ReduceKind::sum, true, expr::Fn::input, expr::Fn::log},
    {"GlobalAveragePool", ReduceKind::mean},
    {"GlobalMaxPool", ReduceKind::max},
};

const OnnxReduction* onnx_reduction(const Node& n) {
  const auto at = std::ranges::find(onnx_reductions, std::string_view(n.op), &OnnxReduction::op);
  return n.domain.empty() && at != std::end(onnx_reductions) ? &*at : nullptr;
}

/// 64 bits without a sign in the order of those with one, and back.
expr::Ref with_other_sign(expr::Program& p, expr::Ref r) {
  const expr::Ref one = p.constant(DType::u64, 1), places = p.constant(DType::u64, 63);  // 2^63 itself is no constant
  const expr::Ref highest = p.call(expr::Fn::shift_left, one, places);
  return p.cast(p.call(expr::Fn::bit_xor, p.cast(r, DType::u64), highest), DType::i64);
}

/// Bytes, which have folds of their own for extremes.
bool is_byte_or_bool(DType t) { return t == DType::boolean || t == DType::u8 || t == DType::i8; }

/// Integers whose every value i32 has.
bool is_narrow(DType t) { return t == DType::boolean || (expr::is_computing(t) && is_integer(t) && bits(t) < 32); }

/// Refused where this kernel cannot run the node.
Result<ReduceProblem> problem_of(const BoundNode& b) {
  const Node& n = *b.node;
  ReduceProblem p;
  if (n.domain == smelt_domain) {
    const Reduction r(n);
    p.before = required_program(n), p.post = r.post, p.kind = r.kind, p.axes = r.axes, p.inputs_before = r.inputs_before,
    p.inputs = b.inputs.size();
  } else {
    const OnnxReduction& r = *onnx_reduction(n);
    p.kind = r.kind;
    auto axes = listed_axes(b);
    if (!axes) return axes.refusal();
    const auto& listed = *axes;
    p.none = !listed;
    if (listed) p.axes = *listed;
    const bool extreme = p.kind == ReduceKind::max || p.kind == ReduceKind::min;
    const DType from = b.inputs[0].type, type = extreme && is_byte_or_bool(from) ? from
                                                : extreme && is_narrow(from)     ? DType::i32
                                                                                 : folded(from, r.real);
    if (type == DType::undefined) return refuse(Reason::wrong_type, "its type is {}", name(from));
    const bool own_ends = type == from && from != DType::boolean;
    if (extreme && !own_ends && !is_float(from) && elements(b.inputs[0].shape) == 0)
      return refuse(Reason::wrong_shape, "the extreme of no elements, which is the type's own");
    const bool ordered = from == DType::u64 && extreme;
    // A mean of u64: the sum, whose bits are the same with a sign, divided without one.
    const bool divides = from == DType::u64 && p.kind == ReduceKind::mean;
    const int64_t results = elements(b.outputs[0].shape), averaged = elements(b.inputs[0].shape) / std::max<int64_t>(1, results);
    if (divides && averaged == 0) return refuse(Reason::wrong_shape, "the mean of nothing");
    if (divides) p.kind = ReduceKind::sum;
    expr::Ref v = p.before.cast(p.before.input(from), type);
    if (r.first != expr::Fn::input && from != DType::u64) v = p.before.call(r.first, v);
    p.before.output(ordered ? with_other_sign(p.before, v) : v);
    if (type != from || r.finish != expr::Fn::input) {
      expr::Program& post = p.post.emplace();
      expr::Ref w = post.input(type);
      if (r.finish != expr::Fn::input) w = post.call(r.finish, w);
      if (divides) w = post.call(expr::Fn::div, post.cast(w, from), post.constant(from, static_cast<double>(averaged)));
      post.output(post.cast(ordered ? with_other_sign(post, w) : w, from));
    }
    if (extreme && is_byte_or_bool(type)) return p;
  }
  const DType type = p.before.type(p.before.outputs()[0]);
  if (type != DType::f32 && type != DType::f64 && type != DType::i32 && type != DType::i64)
    return refuse(Reason::wrong_type, "values of {} are reduced; expected f32, f64, i32 or i64", name(type));
  if (is_integer(type) && (p.kind == ReduceKind::l2 || (p.kind == ReduceKind::mean && n.domain == smelt_domain)))
    return refuse(Reason::wrong_type, "the mean or norm of integers");
  return p;
}

}  // namespace

/// What values of a type are folded in; undefined for what has no kernel.
DType folded(DType t, bool real) {
  if (t == DType::f16 || t == DType::bf16) return DType::f32;
  if (t == DType::f32 || t == DType::f64) return t;
  if (t != DType::boolean && !expr::is_computing(t)) return DType::undefined;
  return real ? DType::f64 : t == DType::i32 ? t : DType::i64;
}

/// The axes of a reduction or of a pooling over whole planes: nothing for none of them, refused where they are computed.
Result<std::optional<std::vector<int64_t>>> listed_axes(const BoundNode& b) {
  const Node& n = *b.node;
  std::vector<int64_t> axes = n.get_ints("axes");
  if (n.op.starts_with("Global")) {
    for (size_t a = 2; a < b.inputs[0].shape.size(); ++a) axes.push_back(static_cast<int64_t>(a));
    if (axes.empty()) return std::optional<std::vector<int64_t>>();
  } else if (b.has(1)) {
    if (!b.inputs[1].constant.valid()) return refuse(Reason::not_constant, "its axes are computed");
    axes = b.inputs[1].constant.to_ints();
  }
  if (axes.empty() && n.get_int("noop_with_empty_axes", 0)) return std::optional<std::vector<int64_t>>();
  return std::optional(std::move(axes));
}

std::optional<Refusal> rejects_result(const ReduceProblem& p, const BoundTensor& y) {
  if (!p.post) return is_dense(y) ? std::nullopt : std::optional(refuse(Reason::wrong_layout, "the result is not dense"));
  const Shape strides[] = {memory_strides(y)};
  return Sweep::rejects(*p.post, y.shape, strides);
}

std::optional<Result<ReduceProblem>> reduce_problem(const BoundNode& b) {
  if (!b.node->is("Reduce", smelt_domain) && !onnx_reduction(*b.node)) return std::nullopt;
  return problem_of(b);
}

}  // namespace smelt::ops
