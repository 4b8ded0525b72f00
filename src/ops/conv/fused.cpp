// ai.smelt's Conv and QLinearConv: the convolution by ONNX's Conv in the accumulator's type, then the program.
#include "graph/fused.h"
#include "base/error.h"
#include "ops/conv/family.h"
#include "ops/conv/flops.h"
#include "ops/conv/segments.h"
#include "ops/conv/stem.h"
#include "ops/core/function_body.h"
#include "ops/core/fused.h"
#include "ops/quantize/fused_product.h"

namespace smelt::ops {
namespace {

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

void infer_window(InferContext& c, const TensorDesc& x, size_t weight, const ConvSegments& s, DType type, size_t first) {
  const TensorDesc in[] = {x, as_f32(c.in(weight))};
  set_result(c, type, inferred_shape(plain_node("Conv", 2, s.conv_attributes), in), first);
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

void infer_fused_conv(InferContext& c) {
  const ConvSegments s(c.node);
  infer_window(c, joined(c, s), s.weight(), s, program_type(c.node, c.in(0).type), s.operands());
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
  infer_window(c, as_f32(c.in(0)), 1, s, program_type(c.node, DType::f32), 7);
}

void run_fused_qlinear_conv(ComputeContext& c) {
  const ConvSegments s(c.node);
  std::vector<Tensor> in = {less_zero_point(c.in(0), c.in(4), 1), less_zero_point(c.in(1), c.in(6), 0)};
  if (c.has(2)) in.push_back(c.in(2).cast(DType::f64));
  const Tensor sum = evaluate(plain_node("Conv", in.size(), s.conv_attributes), in)[0];
  c.outputs[0] = run_epilogue(c, scaled_sum(sum, c.in(3), c.in(5), 1), 7, c.outputs[0].type());
}

/// One value a channel, [M], as [M, 1, …] with `axes_behind` ones; a single value as a scalar.
ValueId channels(Body& b, ValueId v, size_t input, int64_t axes_behind) {
  if (b.rank(input) == 0 || (b.shape(input)[0].known() && b.shape(input)[0].value == 1)) return b.op("Reshape", {v, b.ints({})});
  std::vector<int64_t> shape(static_cast<size_t>(axes_behind) + 1, 1);
  shape[0] = -1;
  return b.op("Reshape", {v, b.ints(shape)});
}

/// Of `first` in place of the first image.
ValueId conv_of(Body& b, ValueId first) {
  const ConvSegments s(b.node());
  const DType c = b.accumulator();
  std::vector<ValueId> parts;
  for (size_t i = 0; i < s.count; ++i) {
    ValueId x = b.cast(i == 0 ? first : b.in(i), c);
    if (s.upsample[i] != 1) {
      if (b.rank(i) < 3) fail("segment {} has rank {}, expected [batch, channels, spatial…]", i, b.rank(i));
      std::vector<float> factors(static_cast<size_t>(b.rank(i)), static_cast<float>(s.upsample[i]));
      factors[0] = factors[1] = 1;
      x = b.op("Resize", {x, ValueId::none, b.floats(factors)},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")}});
    }
    parts.push_back(x);
  }
  const ValueId x = parts.size() == 1 ? parts[0] : b.op("Concat", parts, {{"axis", int64_t{1}}});
  std::vector<ValueId> inputs = {x, b.cast(b.in(s.weight()), c)};
  if (b.has(s.bias())) inputs.push_back(b.cast(b.in(s.bias()), c));
  return b.epilogue(b.op("Conv", inputs, s.conv_attributes), s.operands());
}

std::vector<ValueId> expand_conv(Body& b) { return {conv_of(b, b.in(0))}; }

/// Of `image` in place of the node's.
ValueId qlinear_conv_of(Body& b, ValueId image) {
  const ConvSegments s(b.node());
  const int64_t spatial = b.rank(1) - 2;  // the weights' rank is x's, and known more often
  if (spatial < 1) fail("the weights have rank {}, expected [channels, channels, spatial…]", b.rank(1));
  const DType x_type = b.type(image), w_type = b.type(b.in(1));
  ValueId sum;
  if (b.has(6) && b.rank(6) > 0 && !(b.shape(6)[0].known() && b.shape(6)[0].value == 1)) {
    // ONNX Runtime's ConvInteger takes one zero point of the weights: one for each channel is subtracted before. Sums beyond 2^53
    // are none.
    const ValueId zero = b.op("Reshape", {zero_point(b, 4, x_type), b.ints({})});
    const ValueId x = b.op("Sub", {b.cast(image, DType::f64), b.cast(zero, DType::f64)});
    const ValueId w = b.op("Sub", {b.cast(b.in(1), DType::f64), b.cast(channels(b, b.in(6), 6, spatial + 1), DType::f64)});
    sum = b.cast(b.op("Conv", {x, w}, s.conv_attributes), DType::i32);
  } else {
    std::vector<ValueId> inputs = {unsigned_activation(b, image), b.in(1), unsigned_activation(b, zero_point(b, 4, x_type))};
    if (b.has(6)) inputs.push_back(zero_point(b, 6, w_type));
    sum = b.op("ConvInteger", inputs, DType::i32, s.conv_attributes);
  }
  if (b.has(2)) sum = b.op("Add", {sum, channels(b, b.in(2), 2, spatial)});
  const ValueId scale = scale_product(b, b.op("Reshape", {b.in(3), b.ints({})}), channels(b, b.in(5), 5, spatial));
  return b.epilogue(b.op("Mul", {b.cast(sum, DType::f32), scale}), 7);
}

std::vector<ValueId> expand_qlinear_conv(Body& b) { return {qlinear_conv_of(b, b.in(0))}; }

template <ValueId (*Convolution)(Body&, ValueId)> std::vector<ValueId> expand_stem(Body& b) {
  const auto image = conv::stem_image(b.node());
  std::vector<ValueId> y = {Convolution(b, image ? b.program(*image, std::vector{b.in(0)})[0] : b.in(0))};
  if (const auto pool = conv::stem_pool(b.node())) y = {b.op("MaxPool", y, pool->attrs)};
  return y;
}

}  // namespace

std::span<const OpRow> fused_conv_ops() {
  static constexpr OpRow table[] = {
      {{"Conv", smelt_domain, infer_fused_conv, run_fused_conv, true, expand_conv},
       {.flops = {.count = fused_conv_flops}, .contracts = true}},
      {{"QLinearConv", smelt_domain, infer_fused_qlinear_conv, run_fused_qlinear_conv, true, expand_qlinear_conv},
       {.flops = {.count = conv_flops<1>}, .half = Half::wide, .contracts = true}},
      {{"StemConv", smelt_domain, infer_stem_conv, run_stem_conv, true, expand_stem<conv_of>},
       {.flops = {.count = stem_conv_flops}, .contracts = true}},
      {{"StemQLinearConv", smelt_domain, infer_stem_conv, run_stem_conv, true, expand_stem<qlinear_conv_of>},
       {.flops = {.count = stem_conv_flops}, .half = Half::wide, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
