// ai.smelt's MatMul, QLinearMatMul and BlockMatMul: the product by ONNX's MatMul in the accumulator's type, then the program.
#include "graph/fused.h"
#include "base/error.h"
#include "ops/core/function_body.h"
#include "ops/core/fused.h"
#include "ops/matmul/family.h"
#include "ops/matmul/flops.h"
#include "ops/quantize/fused_product.h"

namespace smelt::ops {
namespace {

Shape matrix_shape(const TensorDesc& d, bool transposed) {
  Shape s = d.shape;
  if (transposed) {
    if (s.size() < 2) fail("two axes are to be swapped, but the shape is {}", to_string(s));
    std::swap(s[s.size() - 1], s[s.size() - 2]);
  }
  return s;
}

void infer_product(InferContext& c, DType type, size_t first) {
  std::optional<Shape> shape;
  if (c.in(0).shape_known && c.in(1).shape_known) {
    const TensorDesc in[] = {{DType::f32, matrix_shape(c.in(0), c.node.get_int("transA", 0)), true, nullptr},
                             {DType::f32, matrix_shape(c.in(1), c.node.get_int("transB", 0)), true, nullptr}};
    shape = inferred_shape(plain_node("MatMul", 2), in);
  }
  set_result(c, type, shape, first);
}

Tensor swapped(const Tensor& t, bool swap) {
  if (!swap) return t;
  std::vector<int64_t> perm(static_cast<size_t>(t.rank()));
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  if (perm.size() < 2) fail("two axes are to be swapped, but the shape is {}", to_string(t.shape()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return evaluate(plain_node("Transpose", 1, {{"perm", perm}}), std::vector{t})[0];
}

void infer_fused_matmul(InferContext& c) { infer_product(c, program_type(c.node, c.in(0).type), 2); }

void run_fused_matmul(ComputeContext& c) {
  const DType type = c.outputs[0].type(), acc = accumulator(type);
  const std::vector<Tensor> in = {swapped(c.in(0).cast(acc), c.node.get_int("transA", 0)),
                                  swapped(c.in(1).cast(acc), c.node.get_int("transB", 0))};
  Tensor y = evaluate(plain_node("MatMul", 2), in)[0];
  if (const float alpha = c.node.get_float("alpha", 1); alpha != 1) {
    if (acc == DType::f64)
      for (int64_t i = 0; i < y.size(); ++i) y.data<double>()[i] *= alpha;
    else
      for (int64_t i = 0; i < y.size(); ++i) y.data<float>()[i] *= alpha;
  }
  c.outputs[0] = run_epilogue(c, y, 2, type);
}

void infer_fused_qlinear_matmul(InferContext& c) { infer_product(c, program_type(c.node, DType::f32), 6); }

void run_fused_qlinear_matmul(ComputeContext& c) {
  const std::vector<Tensor> in = {
      swapped(less_zero_point(c.in(0), c.in(3), -1), c.node.get_int("transA", 0)),
      swapped(less_zero_point(c.in(1), c.in(5), c.node.get_int("transB", 0) ? -2 : -1), c.node.get_int("transB", 0))};
  const Tensor sum = evaluate(plain_node("MatMul", 2), in)[0];
  c.outputs[0] = run_epilogue(c, scaled_sum(sum, c.in(2), c.in(4), -1), 6, c.outputs[0].type());
}

/// The inputs that product i of the joined ones has, among all of them.
template <class T> std::vector<T> inputs_of_product(std::span<const T> all, size_t products, size_t i) {
  const size_t first = products + 1;
  if (all.size() < first) fail("{} inputs for {} products, expected at least {}", all.size(), products, first);
  const size_t operands = (all.size() - first) / products;
  std::vector<T> own = {all[0], all[1 + i]};
  for (size_t k = 0; k < operands; ++k) own.push_back(all[first + i * operands + k]);
  return own;
}

void infer_joined_matmul(InferContext& c) {
  const size_t products = c.node.outputs.size();
  for (size_t i = 0; i < products; ++i) {
    const Node one = product_of_joined(c.node, i);
    const std::vector<TensorDesc> in = inputs_of_product(c.inputs, products, i);
    InferContext each{one, in, c.outputs.subspan(i, 1)};
    infer_fused_matmul(each);
  }
}

void run_joined_matmul(ComputeContext& c) {
  const size_t products = c.node.outputs.size();
  for (size_t i = 0; i < products; ++i) {
    const Node one = product_of_joined(c.node, i);
    const std::vector<Tensor> in = inputs_of_product(c.inputs, products, i);
    ComputeContext each{one, in, c.outputs.subspan(i, 1), c.run_graph};
    run_fused_matmul(each);
  }
}

ValueId expand_product(Body& b, size_t a, size_t w) {
  const DType c = b.accumulator();
  ValueId left = b.cast(b.in(a), c), right = b.cast(b.in(w), c);
  if (b.node().get_int("transA", 0)) left = b.swap_last(left, b.rank(a));
  if (b.node().get_int("transB", 0)) right = b.swap_last(right, b.rank(w));
  const ValueId y = b.op("MatMul", {left, right});
  const float alpha = b.node().get_float("alpha", 1);
  return alpha != 1 ? b.op("Mul", {y, b.number(c, alpha)}) : y;
}

std::vector<ValueId> expand_matmul(Body& b) { return {b.epilogue(expand_product(b, 0, 1), 2)}; }

std::vector<ValueId> expand_joined_matmul(Body& b) {
  const size_t products = b.node().outputs.size();
  std::vector<ValueId> all, results;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) all.push_back(b.in(i));
  for (size_t i = 0; i < products; ++i) {
    std::vector<ValueId> in = inputs_of_product(std::span<const ValueId>(all), products, i);
    const ValueId y = expand_product(b, 0, 1 + i);
    in.erase(in.begin());
    in[0] = y;
    results.push_back(b.node().program ? b.program(*b.node().program, in)[0] : b.cast(y, b.output_type(i)));
  }
  return results;
}

std::vector<ValueId> expand_qlinear_matmul(Body& b) {
  const bool trans_a = b.node().get_int("transA", 0), trans_b = b.node().get_int("transB", 0);
  ValueId left = unsigned_activation(b, b.in(0)), right = b.in(1);
  if (trans_a) left = b.swap_last(left, b.rank(0));
  if (trans_b) right = b.swap_last(right, b.rank(1));
  std::vector<ValueId> inputs = {left, right, unsigned_activation(b, zero_point(b, 3, b.type(b.in(0))))};
  if (b.has(5)) inputs.push_back(b.in(5));
  const ValueId sum = b.op("MatMulInteger", inputs, DType::i32);
  return {b.epilogue(b.op("Mul", {b.cast(sum, DType::f32), scale_product(b, b.in(2), b.in(4))}), 6)};
}

/// Of ai.smelt.BlockMatMul: a [.., K], weights [N, row], scale and zero points [N, blocks].
struct Blocks {
  int64_t k, row, block;
};

Blocks blocks_of(const Node& node, int64_t row) {
  const Blocks b{node.get_int("K", row), row, node.get_int("block_size", 0)};
  if (b.block < 1) fail("block_size is {}, expected 1 or more", b.block);
  if (b.k < 1 || b.k > row) fail("K is {}, expected 1 to the weights' {}", b.k, row);
  return b;
}

void infer_block_matmul(InferContext& c) {
  if (c.in(1).shape_known && c.in(2).shape_known) {
    const Shape &q = c.shape(1), &scale = c.shape(2);
    if (q.size() != 2) fail("the weights have shape {}, expected [N, K]", to_string(q));
    const Blocks b = blocks_of(c.node, q[1]);
    const Shape expected = {q[0], q[1] / b.block + (q[1] % b.block != 0)};
    if (scale != expected) fail("the scale has shape {}, expected {}", to_string(scale), to_string(expected));
    if (c.has(3) && c.in(3).shape_known && c.shape(3) != expected)
      fail("the zero point has shape {}, expected the scale's {}", to_string(c.shape(3)), to_string(expected));
    if (c.has(3) && c.in(3).type != c.in(1).type)
      fail("the zero point is {}, expected the weights' {}", name(c.in(3).type), name(c.in(1).type));
    if (c.in(0).shape_known) {
      Shape y = c.shape(0);
      if (y.empty() || y.back() != b.k) fail("a has shape {}, expected [.., {}]", to_string(y), b.k);
      y.back() = q[0];
      return set_result(c, program_type(c.node, c.in(0).type), y, 4);
    }
  }
  set_result(c, program_type(c.node, c.in(0).type), std::nullopt, 4);
}

void run_block_matmul(ComputeContext& c) {
  const DType type = c.outputs[0].type(), acc = accumulator(type);
  const Blocks b = blocks_of(c.node, c.in(1).shape()[1]);
  std::vector<Tensor> in = {c.in(1), c.in(2).cast(DType::f32)};
  if (c.has(3)) in.push_back(c.in(3));
  Tensor w = evaluate(plain_node("DequantizeLinear", in.size(), {{"axis", int64_t{1}}, {"block_size", b.block}}), in)[0];
  if (b.k < b.row) {
    const auto one = [](int64_t v) { return Tensor::of({1}, std::vector<int64_t>{v}); };
    w = evaluate(plain_node("Slice", 4), std::vector{w, one(0), one(b.k), one(1)})[0];
  }
  const std::vector<Tensor> sides = {c.in(0).cast(acc), swapped(w.cast(acc), true)};
  c.outputs[0] = run_epilogue(c, evaluate(plain_node("MatMul", 2), sides)[0], 4, type);
}

std::vector<ValueId> expand_block_matmul(Body& b) {
  const DType c = b.accumulator();
  const Blocks blocks = blocks_of(b.node(), b.extent(1, 1));
  std::vector<ValueId> in = {b.in(1), b.cast(b.in(2), c)};
  if (b.has(3)) in.push_back(b.in(3));
  ValueId w = b.op("DequantizeLinear", in, c, {{"axis", int64_t{1}}, {"block_size", blocks.block}});
  if (blocks.k < blocks.row) w = b.op("Slice", {w, b.ints({0}), b.ints({blocks.k}), b.ints({1})});
  return {b.epilogue(b.op("MatMul", {b.cast(b.in(0), c), b.swap_last(w, 2)}), 4)};
}

}  // namespace

std::span<const OpRow> fused_matmul_ops() {
  static constexpr OpRow table[] = {
      {{"MatMul", smelt_domain, infer_fused_matmul, run_fused_matmul, true, expand_matmul},
       {.flops = {.count = matmul_flops}, .contracts = true}},
      {{"JoinedMatMul", smelt_domain, infer_joined_matmul, run_joined_matmul, true, expand_joined_matmul},
       {.flops = {.count = joined_matmul_flops}, .contracts = true}},
      {{"QLinearMatMul", smelt_domain, infer_fused_qlinear_matmul, run_fused_qlinear_matmul, true, expand_qlinear_matmul},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::fp32, .contracts = true}},
      {{"BlockMatMul", smelt_domain, infer_block_matmul, run_block_matmul, true, expand_block_matmul},
       {.flops = {.count = matmul_flops}, .autocast = Autocast::fp32, .contracts = true, .expands_on_gpu = true}},
  };
  return table;
}

}  // namespace smelt::ops
