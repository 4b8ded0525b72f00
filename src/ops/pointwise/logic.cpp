// Comparison, logic and selection.
#include "base/error.h"
#include "ops/core/expression.h"
#include "ops/pointwise/family.h"
#include "ops/pointwise/reference.h"

namespace smelt::ops {

using expr::Fn;
namespace {

struct Less : OnNumbers {
  bool operator()(auto a, auto b) const { return a < b; }
};
struct LessOrEqual : OnNumbers {
  bool operator()(auto a, auto b) const { return a <= b; }
};
struct Greater : OnNumbers {
  bool operator()(auto a, auto b) const { return a > b; }
};
struct GreaterOrEqual : OnNumbers {
  bool operator()(auto a, auto b) const { return a >= b; }
};
struct Equal : OnNumbers {
  bool operator()(auto a, auto b) const { return a == b; }
};
struct And : OnIntegers {
  bool operator()(auto a, auto b) const { return a && b; }
};
struct Or : OnIntegers {
  bool operator()(auto a, auto b) const { return a || b; }
};
struct Xor : OnIntegers {
  bool operator()(auto a, auto b) const { return !a != !b; }
};
struct Not : OnIntegers {
  bool operator()(auto a) const { return !a; }
};

void run_equal(ComputeContext& c) {
  if (c.in(0).type() != DType::string) return run_binary<Equal>(c);
  const Shape& shape = c.outputs[0].shape();
  const LoopNest nest(shape, {broadcast_strides(c.in(0).shape(), shape), broadcast_strides(c.in(1).shape(), shape)});
  const auto &a = c.in(0).strings(), &b = c.in(1).strings();
  bool* out = c.outputs[0].data<bool>();
  nest.for_each_run([&](std::span<const int64_t> at) {
    for (int64_t i = 0; i < nest.run(); ++i) {
      *out++ = a[static_cast<size_t>(at[0] + i * nest.stride(0))] == b[static_cast<size_t>(at[1] + i * nest.stride(1))];
    }
  });
}

void infer_logical(InferContext& c) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (type_of(c, i) != DType::boolean) fail("input {} has type {}, expected bool", i, name(c.in(i).type));
  }
  infer_broadcast(c, DType::boolean, c.inputs.size());
}

void infer_where(InferContext& c) {
  if (type_of(c, 0) != DType::boolean) fail("the condition has type {}, expected bool", name(c.in(0).type));
  if (type_of(c, 1) != type_of(c, 2))
    fail("inputs 1 and 2 have the types {} and {}, expected one type", name(c.in(1).type), name(c.in(2).type));
  infer_broadcast(c, c.in(1).type, 3);
}

template <class E> void select(const LoopNest& nest, const bool* condition, const E* yes, const E* no, E* out) {
  nest.for_each_run([&](std::span<const int64_t> at) {
    const int64_t n = nest.run(), sc = nest.stride(0), sy = nest.stride(1), sn = nest.stride(2);
    const bool* pc = condition + at[0];
    const E *py = yes + at[1], *pn = no + at[2];
    for (int64_t i = 0; i < n; ++i) out[i] = pc[i * sc] ? py[i * sy] : pn[i * sn];
    out += n;
  });
}

void run_where(ComputeContext& c) {
  Tensor& out = c.outputs[0];
  std::vector<Shape> operand_strides;
  for (size_t i = 0; i < 3; ++i) operand_strides.push_back(broadcast_strides(c.in(i).shape(), out.shape()));
  const LoopNest nest(out.shape(), operand_strides);
  const bool* condition = c.in(0).data<bool>();
  if (out.type() == DType::string) {
    return select(nest, condition, c.in(1).strings().data(), c.in(2).strings().data(), out.strings().data());
  }
  const auto run = [&]<class E>(E) {
    select(nest, condition, static_cast<const E*>(c.in(1).raw()), static_cast<const E*>(c.in(2).raw()),
           static_cast<E*>(out.raw()));
  };
  switch (bits(out.type())) {
    case 8: return run(uint8_t{});
    case 16: return run(uint16_t{});
    case 32: return run(uint32_t{});
    case 64: return run(uint64_t{});
    default: fail("cannot select between elements of type {}", name(out.type()));
  }
}

}  // namespace

std::span<const OpRow> logic_ops() {
  static constexpr OpRow table[] = {
      {{"Less", onnx_domain, infer_comparison, run_binary<Less>}, broadcasting(Fn::less)},
      {{"LessOrEqual", onnx_domain, infer_comparison, run_binary<LessOrEqual>}, broadcasting(Fn::less_equal)},
      {{"Greater", onnx_domain, infer_comparison, run_binary<Greater>}, broadcasting(Fn::greater)},
      {{"GreaterOrEqual", onnx_domain, infer_comparison, run_binary<GreaterOrEqual>}, broadcasting(Fn::greater_equal)},
      {{"Equal", onnx_domain, infer_comparison, run_equal}, broadcasting(Fn::equal)},
      {{"And", onnx_domain, infer_logical, run_binary<And>}, broadcasting(Fn::logical_and, {.flops = no_flops})},
      {{"Or", onnx_domain, infer_logical, run_binary<Or>}, broadcasting(Fn::logical_or, {.flops = no_flops})},
      {{"Xor", onnx_domain, infer_logical, run_binary<Xor>}, broadcasting(Fn::logical_xor, {.flops = no_flops})},
      {{"Not", onnx_domain, infer_logical, run_unary<Not>}, elementwise(Fn::logical_not, {.flops = no_flops})},
      {{"Where", onnx_domain, infer_where, run_where}, broadcasting(Fn::select, {.flops = no_flops})},
  };
  return table;
}

}  // namespace smelt::ops
