// Every reduction in the same terms: a program, a state, axes, and a program over the result.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/pointwise/fused.h"
#include "ops/reduce/cuda_reduce.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {
namespace {

constexpr std::string_view fused_states[] = {"Sum", "Mean", "Max", "Min", "Product", "SquareSum", "Norm2"};  // ReduceKind's order

struct OnnxState {
  std::string_view op, state;
  bool real = false;  // computed in floating point whatever the type
};
constexpr OnnxState onnx_states[] = {{"ReduceSum", "Sum"},
                                     {"ReduceMean", "Mean"},
                                     {"ReduceMax", "Max"},
                                     {"ReduceMin", "Min"},
                                     {"ReduceProd", "Product"},
                                     {"ReduceL1", "AbsSum"},
                                     {"ReduceL2", "Norm2", true},
                                     {"ReduceSumSquare", "SquareSum"},
                                     {"ReduceLogSum", "LogSum", true},
                                     {"ReduceLogSumExp", "LogSumExp", true},
                                     {"GlobalAveragePool", "Mean"},
                                     {"GlobalMaxPool", "Max"},
                                     {"ArgMax", "BufferRef"},
                                     {"ArgMin", "BufferRef"}};

/// What values of a type are folded in: integers in 64 bits, f16 and bf16 in f32; undefined for what has no kernel.
DType folded(DType t, bool real) {
  if (t == DType::f16 || t == DType::bf16 || t == DType::f32) return DType::f32;
  if (t == DType::f64) return t;
  if (t != DType::boolean && (!is_integer(t) || bits(t) < 8)) return DType::undefined;
  return real ? DType::f64 : is_signed(t) ? DType::i64 : DType::u64;
}

/// The result of no elements for Max (`largest`) and Min: the other end of the values' own type.
std::string start_of(DType own, DType value, bool largest) {
  const std::string type(expr::cuda_type(value));
  if (is_float(value)) return fmt::format("{}{}(__int_as_float(0x7f800000))", largest ? "-" : "", type);
  if (own == DType::boolean) return fmt::format("static_cast<{}>({})", type, largest ? 0 : 1);
  const int width = bits(own) - (is_signed(own) ? 1 : 0);
  const std::string most = fmt::format("(~0ull >> {})", 64 - width);
  if (!largest) return fmt::format("static_cast<{}>({})", type, most);
  return is_signed(own) ? fmt::format("static_cast<{}>(~{})", type, most) : fmt::format("static_cast<{}>(0)", type);
}

void set_state(ReduceForm& f, std::string_view name, DType own, DType value) {
  const std::string_view type = expr::cuda_type(value);
  const bool ends = name == "Max" || name == "Min";
  if (ends) f.start = start_of(own, value, name == "Max");
  f.state = ends ? fmt::format("{}<{}, Start>", name, type) : fmt::format("{}<{}>", name, type);
  f.state_bytes = bits(value) / 8 * (name == "LogSumExp" ? 2 : 1);
}

std::vector<int64_t> all_axes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Result<ReduceForm> fused_form(const BoundNode& b) {
  const Reduction r(*b.node);
  ReduceForm f;
  f.before = required_program(*b.node);
  const DType value = f.before.type(f.before.outputs()[0]);
  if (folded(value, false) == DType::undefined || value == DType::f16 || value == DType::bf16)
    return refuse(Reason::wrong_type, "values of {} are reduced", name(value));
  if (is_integer(value) && r.kind == ReduceKind::l2) return refuse(Reason::wrong_type, "the norm of integers");
  set_state(f, fused_states[static_cast<size_t>(r.kind)], value, value);
  f.after = r.post ? *r.post : expr::conversion(value, b.outputs[0].type);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    (i < r.inputs_before ? f.before_inputs : f.after_inputs).push_back(i);
    if (i < r.inputs_before) shapes.push_back(b.inputs[i].shape);
  }
  f.shape = broadcast_all(shapes);
  f.axes = r.axes.empty() ? all_axes(static_cast<int64_t>(f.shape.size()))
                          : normalize_axes(r.axes, static_cast<int64_t>(f.shape.size()));
  f.keepdims = r.keepdims;
  return f;
}

}  // namespace

bool is_reduction(const Node& n) {
  if (n.domain == smelt_domain) return n.op == "Reduce";
  return n.domain.empty() && std::ranges::find(onnx_states, std::string_view(n.op), &OnnxState::op) != std::end(onnx_states);
}

Result<ReduceForm> reduce_form(const BoundNode& b) {
  const Node& n = *b.node;
  if (n.domain == smelt_domain) return fused_form(b);
  const auto* state = std::ranges::find(onnx_states, std::string_view(n.op), &OnnxState::op);
  ReduceForm f;
  const DType own = b.inputs[0].type, value = folded(own, state->real);
  if (value == DType::undefined) return refuse(Reason::wrong_type, "elements of {}", name(own));
  f.shape = b.inputs[0].shape;
  f.before_inputs = {0};
  const auto rank = static_cast<int64_t>(f.shape.size());
  f.keepdims = n.get_int("keepdims", 1) != 0;
  f.before = expr::conversion(own, value);
  if (state->state == "BufferRef") {
    f.indexed = true;
    f.axes = {rank == 0 ? 0 : normalize_axis(n.get_int("axis", 0), rank)};
    if (rank == 0) f.axes.clear();
    f.state = fmt::format("ArgPlace<{}, {}, {}>", expr::cuda_type(value), n.op == "ArgMax" ? 1 : -1,
                          n.get_int("select_last_index", 0) ? "true" : "false");
    f.state_bytes = bits(value) / 4;
    f.after = expr::conversion(DType::i64, b.outputs[0].type);
    return f;
  }
  set_state(f, state->state, own, value);
  f.after = expr::conversion(value, b.outputs[0].type);
  if (n.op.starts_with("Global")) {
    f.axes = all_axes(rank);
    f.axes.erase(f.axes.begin(), f.axes.begin() + std::min<int64_t>(2, rank));
    return f;
  }
  std::vector<int64_t> listed = n.get_ints("axes");
  if (b.inputs.size() > 1 && b.inputs[1].type != DType::undefined) {
    if (!b.inputs[1].constant.valid()) return refuse(Reason::not_constant, "its axes are computed");
    listed = b.inputs[1].constant.to_ints();
  }
  if (!listed.empty())
    f.axes = normalize_axes(listed, rank);
  else if (n.get_int("noop_with_empty_axes", 0) == 0)
    f.axes = all_axes(rank);
  return f;
}

}  // namespace smelt::ops
