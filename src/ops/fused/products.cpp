// Conv, MatMul and their quantised forms: the product by ONNX's own operator in the accumulator's type, then the program.
#include "base/error.h"
#include "graph/fused.h"
#include "ops/conv/segments.h"
#include "ops/core/program.h"
#include "ops/fused/reference.h"

namespace smelt::ops {

DType program_type(const Node& n, DType otherwise) {
  return n.program && !n.program->outputs().empty() ? n.program->type(n.program->outputs()[0]) : otherwise;
}

Tensor run_epilogue(const ComputeContext& c, const Tensor& in0, size_t first, DType type) {
  if (!c.node.program) return in0.cast(type);
  std::vector<Tensor> inputs = {in0};
  for (size_t i = first; i < c.inputs.size(); ++i) inputs.push_back(c.in(i));
  return evaluate_program(*c.node.program, inputs, in0.shape())[0];
}

void check_operands(const InferContext& c, size_t first, const Shape& shape) {
  for (size_t i = first; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].shape_known) continue;
    const auto both = broadcast(c.inputs[i].shape, shape);
    if (!both || *both != shape)
      fail("operand {} (input {}) has shape {}, which does not broadcast to the result's {}", i - first, i,
           to_string(c.inputs[i].shape), to_string(shape));
  }
}

Node plain_node(std::string op, size_t inputs, std::map<std::string, Attribute> attrs) {
  Node n;
  n.op = std::move(op);
  for (size_t i = 0; i < inputs; ++i) n.inputs.push_back(ValueId(i));
  n.outputs = {ValueId(inputs)};
  n.attrs = std::move(attrs);
  return n;
}

namespace {

/// The shape that `node`, an ONNX operator over inputs of f32, gives; nothing where an input's shape is not known.
std::optional<Shape> shape_of(const Node& node, std::span<const TensorDesc> inputs) {
  for (const TensorDesc& d : inputs)
    if (!d.shape_known) return std::nullopt;
  TensorDesc out;
  infer(node, inputs, {&out, 1});
  return out.shape_known ? std::optional(out.shape) : std::nullopt;
}

void set_result(InferContext& c, DType type, const std::optional<Shape>& shape, size_t first) {
  if (!shape) return c.set_type(0, type);
  check_operands(c, first, *shape);
  c.set(0, type, *shape);
}

TensorDesc as_f32(const TensorDesc& d) { return {DType::f32, d.shape, d.shape_known, nullptr}; }

/// What a Conv over `segments` sees: their channels one behind the other, upsampled.
TensorDesc joined(const InferContext& c, const ConvSegments& s) {
  TensorDesc x = as_f32(c.in(0));
  for (size_t i = 0; i < s.count; ++i) {
    const TensorDesc& part = c.in(i);
    if (!part.present()) fail("segment {} is required and was left out", i);
    if (!part.shape_known) return {DType::f32, {}, false, nullptr};
    if (part.shape.size() < 3) fail("segment {} has shape {}, expected [batch, channels, spatial…]", i, to_string(part.shape));
    Shape up = part.shape;
    for (size_t a = 2; a < up.size(); ++a)
      if (__builtin_mul_overflow(up[a], s.upsample[i], &up[a]))
        fail("segment {} of {} overflows, upsampled by {}", i, to_string(part.shape), s.upsample[i]);
    if (i == 0) {
      x.shape = up;
      continue;
    }
    Shape expected = x.shape;
    expected[1] = up[1];
    if (up != expected)
      fail("segment {} has shape {} after upsampling, expected {} but for the channels", i, to_string(up), to_string(x.shape));
    if (__builtin_add_overflow(x.shape[1], up[1], &x.shape[1])) fail("the channels of the segments overflow");
  }
  return x;
}

void infer_conv(InferContext& c, const TensorDesc& x, size_t weight, const ConvSegments& s, DType type, size_t first) {
  const TensorDesc in[] = {x, as_f32(c.in(weight))};
  set_result(c, type, shape_of(plain_node("Conv", 2, s.conv_attributes), in), first);
}

/// Nearest-neighbour upsampling of the spatial axes by a whole factor, into channels [at, …) of `to`, both of type T.
template <class T> void place_segment(const Tensor& x, int64_t factor, Tensor& to, int64_t at) {
  const Shape &in = x.shape(), &out = to.shape();
  const Shape in_strides = strides(in), out_strides = strides(out);
  const T* from = x.data<T>();
  T* y = to.data<T>();
  const int64_t spatial = out_strides[1];
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t ch = 0; ch < in[1]; ++ch)
      for (int64_t p = 0; p < spatial; ++p) {
        int64_t source = 0, rest = p;
        for (size_t a = 2; a < out.size(); ++a) {
          source += rest / out_strides[a] / factor * in_strides[a];
          rest %= out_strides[a];
        }
        y[n * out_strides[0] + (at + ch) * spatial + p] = from[n * in_strides[0] + ch * in_strides[1] + source];
      }
}

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
    shape = shape_of(plain_node("MatMul", 2), in);
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

/// v - zero as 64-bit integers in f64, where every sum of products of 8-bit integers is exact. zero [M] lies along `axis`.
Tensor shifted(const Tensor& v, const Tensor& zero, int64_t axis) {
  Tensor out = v.cast(DType::f64);
  if (!zero.valid()) return out;
  const std::vector<double> z = zero.to_doubles();
  const int64_t inner = strides(v.shape())[static_cast<size_t>(normalize_axis(axis, v.rank()))];
  const int64_t extent = v.shape()[static_cast<size_t>(normalize_axis(axis, v.rank()))];
  if (z.size() != 1 && static_cast<int64_t>(z.size()) != extent) fail("{} zero points for an axis of {}", z.size(), extent);
  double* p = out.data<double>();
  for (int64_t i = 0; i < out.size(); ++i) p[i] -= z[z.size() == 1 ? 0 : static_cast<size_t>(i / inner % extent)];
  return out;
}

/// float(sum) · (scale_a · scale_b), the second scale along `axis` where it has more than one value.
Tensor scaled(const Tensor& sum, const Tensor& a, const Tensor& b, int64_t axis) {
  Tensor out = sum.cast(DType::f32);
  const Tensor sa = a.cast(DType::f32), sb = b.cast(DType::f32);
  if (sa.size() != 1) fail("the first operand has {} scales, expected 1", sa.size());
  const int64_t at = normalize_axis(axis, sum.rank()), extent = sum.shape()[static_cast<size_t>(at)];
  const int64_t inner = strides(sum.shape())[static_cast<size_t>(at)];
  if (sb.size() != 1 && sb.size() != extent) fail("{} scales for an axis of {}", sb.size(), extent);
  float* p = out.data<float>();
  for (int64_t i = 0; i < out.size(); ++i)
    p[i] *= sa.data<float>()[0] * sb.data<float>()[sb.size() == 1 ? 0 : i / inner % extent];
  return out;
}

}  // namespace

void infer_fused_conv(InferContext& c) {
  const ConvSegments s(c.node);
  infer_conv(c, joined(c, s), s.weight(), s, program_type(c.node, c.in(0).type), s.operands());
}

void run_fused_conv(ComputeContext& c) {
  const ConvSegments s(c.node);
  const DType type = c.outputs[0].type(), acc = accumulator(type);
  Tensor x = c.in(0).cast(acc);
  if (s.count > 1 || s.upsample[0] != 1) {
    Shape shape = x.shape();
    shape[1] = 0;
    for (size_t a = 2; a < shape.size(); ++a) shape[a] *= s.upsample[0];
    for (size_t i = 0; i < s.count; ++i) shape[1] += c.in(i).shape()[1];
    x = Tensor::empty(acc, shape);
    int64_t at = 0;
    for (size_t i = 0; i < s.count; ++i) {
      const Tensor part = c.in(i).cast(acc);
      if (acc == DType::f64)
        place_segment<double>(part, s.upsample[i], x, at);
      else
        place_segment<float>(part, s.upsample[i], x, at);
      at += part.shape()[1];
    }
  }
  std::vector<Tensor> in = {x, c.in(s.weight()).cast(acc)};
  if (c.has(s.bias())) in.push_back(c.in(s.bias()).cast(acc));
  const Tensor y = evaluate(plain_node("Conv", in.size(), s.conv_attributes), in)[0];
  c.outputs[0] = run_epilogue(c, y, s.operands(), type);
}

void infer_fused_qlinear_conv(InferContext& c) {
  const ConvSegments s(c.node);
  infer_conv(c, as_f32(c.in(0)), 1, s, program_type(c.node, DType::f32), 7);
}

void run_fused_qlinear_conv(ComputeContext& c) {
  const ConvSegments s(c.node);
  std::vector<Tensor> in = {shifted(c.in(0), c.in(4), 1), shifted(c.in(1), c.in(6), 0)};
  if (c.has(2)) in.push_back(c.in(2).cast(DType::f64));
  const Tensor sum = evaluate(plain_node("Conv", in.size(), s.conv_attributes), in)[0];
  c.outputs[0] = run_epilogue(c, scaled(sum, c.in(3), c.in(5), 1), 7, c.outputs[0].type());
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
      swapped(shifted(c.in(0), c.in(3), -1), c.node.get_int("transA", 0)),
      swapped(shifted(c.in(1), c.in(5), c.node.get_int("transB", 0) ? -2 : -1), c.node.get_int("transB", 0))};
  const Tensor sum = evaluate(plain_node("MatMul", 2), in)[0];
  c.outputs[0] = run_epilogue(c, scaled(sum, c.in(2), c.in(4), -1), 6, c.outputs[0].type());
}

}  // namespace smelt::ops
