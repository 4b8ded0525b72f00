// ai.smelt's Conv, ConvTranspose and QLinearConv: the convolution by ONNX's in the accumulator's type, then the program.
#include "graph/fused.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/conv/family.h"
#include "ops/conv/flops.h"
#include "ops/conv/segments.h"
#include "ops/conv/stem.h"
#include "ops/core/channel_blocks.h"
#include "ops/core/function_body.h"
#include "ops/core/fused.h"
#include "ops/quantize/fused_product.h"

namespace smelt::ops {

Tensor channels_of(const Tensor& w, int64_t first, int64_t count) {
  Shape shape = w.shape();
  const int64_t all = shape[1], taps = elements(Shape(shape.begin() + 2, shape.end()));
  shape[1] = count;
  Tensor part = Tensor::empty(w.type(), shape);
  const auto size = static_cast<size_t>(bytes(w.type(), count * taps));
  for (int64_t m = 0; m < shape[0]; ++m)
    std::memcpy(static_cast<char*>(part.raw()) + static_cast<size_t>(m) * size,
                static_cast<const char*>(w.raw()) + bytes(w.type(), (m * all + first) * taps), size);
  return part;
}

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

constexpr size_t transposed_operands = 3;  // behind x, w and b

std::map<std::string, Attribute> transposed_attributes(const Node& n) {
  std::map<std::string, Attribute> found;
  for (const char* key : {"strides", "pads", "dilations", "group", "kernel_shape", "auto_pad", "output_padding", "output_shape"})
    if (n.has(key)) found.emplace(key, n.attrs.at(key));
  return found;
}

void infer_fused_transposed(InferContext& c) {
  const TensorDesc in[] = {as_f32(c.in(0)), as_f32(c.in(1))};
  const auto y = inferred_shape(plain_node("ConvTranspose", 2, transposed_attributes(c.node)), in);
  set_result(c, program_type(c.node, c.in(0).type), y, transposed_operands);
}

void run_fused_transposed(ComputeContext& c) {
  const DType type = c.outputs[0].type(), acc = accumulator(type);
  std::vector<Tensor> in = {c.in(0).cast(acc), c.in(1).cast(acc)};
  if (c.has(2)) in.push_back(c.in(2).cast(acc));
  const Tensor y = evaluate(plain_node("ConvTranspose", in.size(), transposed_attributes(c.node)), in)[0];
  c.outputs[0] = run_epilogue(c, y, transposed_operands, type);
}

void infer_fused_qlinear_conv(InferContext& c) {
  const ConvSegments s(c.node);
  const ConvSegments::Quantized at = s.quantized();
  if (std::ranges::any_of(s.upsample, [](int64_t u) { return u != 1; })) fail("a quantized segment is upsampled");
  if (c.node.get_int("blocked", 0) != 0) {
    if (s.count > 1 || c.node.get_int("group", 1) != 1) fail("an image in blocks of channels with groups or several segments");
    TensorDesc x = as_f32(c.in(0));
    if (x.shape_known) x.shape = without_blocks(x.shape);
    const TensorDesc in[] = {x, as_f32(c.in(1))};
    auto y = inferred_shape(plain_node("Conv", 2, s.conv_attributes), in);
    if (y) y = in_blocks(*y);
    return set_result(c, program_type(c.node, DType::f32), y, at.operands);
  }
  if (s.count > 1) {
    if (c.node.get_int("group", 1) != 1) fail("{} segments and {} groups", s.count, c.node.get_int("group", 1));
    if (c.has(s.bias())) fail("a bias of integers with {} segments, whose scales differ", s.count);
    for (const size_t i : {at.x_scale, at.x_zero})
      if (c.has(i) && c.in(i).shape_known && c.shape(i) != Shape{static_cast<int64_t>(s.count)})
        fail("input {} has shape {}, expected [{}], a number for each segment", i, to_string(c.shape(i)), s.count);
    for (size_t i = 1; i < s.count; ++i)
      if (c.in(i).type != c.in(0).type)
        fail("segment {} is {}, expected {} as the first", i, name(c.in(i).type), name(c.in(0).type));
  }
  infer_window(c, joined(c, s), s.weight(), s, program_type(c.node, DType::f32), at.operands);
}

/// Number i of several; a single tensor of one, and none, as it is.
Tensor number_of_segment(const Tensor& all, size_t i, size_t segments) {
  if (segments == 1 || !all.valid()) return all;
  return Tensor::scalar(all.to_doubles().at(i)).cast(all.type());
}

void run_fused_qlinear_conv(ComputeContext& c) {
  const ConvSegments s(c.node);
  const ConvSegments::Quantized at = s.quantized();
  Tensor in0;
  int64_t channel = 0;
  const bool blocked = c.node.get_int("blocked", 0) != 0;
  const auto moved = [](const Tensor& x, const std::vector<int64_t>& perm) {
    return evaluate(plain_node("Transpose", 1, {{"perm", perm}}), std::vector{x})[0];
  };
  const size_t spatial = c.in(s.weight()).shape().size() - 2;
  for (size_t i = 0; i < s.count; ++i) {
    const Tensor x = blocked ? moved(c.in(i), channels_of_blocks(spatial)).reshaped(without_blocks(c.in(i).shape())) : c.in(i);
    const int64_t channels = x.shape()[1];
    const Tensor w = s.count == 1 ? c.in(s.weight()) : channels_of(c.in(s.weight()), channel, channels);
    channel += channels;
    std::vector<Tensor> in = {less_zero_point(x, number_of_segment(c.in(at.x_zero), i, s.count), 1),
                              less_zero_point(w, c.in(at.w_zero), 0)};
    if (c.has(s.bias())) in.push_back(c.in(s.bias()).cast(DType::f64));
    const Tensor sum = evaluate(plain_node("Conv", in.size(), s.conv_attributes), in)[0];
    const Tensor scaled = scaled_sum(sum, number_of_segment(c.in(at.x_scale), i, s.count), c.in(at.w_scale), 1);
    if (i == 0) {
      in0 = scaled;
      continue;
    }
    for (int64_t e = 0; e < in0.size(); ++e) in0.data<float>()[e] += scaled.data<float>()[e];
  }
  if (blocked) {
    Shape split = in0.shape();
    split[1] /= channel_block;
    split.insert(split.begin() + 2, channel_block);
    in0 = moved(in0.reshaped(split), blocks_of_channels(spatial));
  }
  c.outputs[0] = run_epilogue(c, in0, at.operands, c.outputs[0].type());
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

std::vector<ValueId> expand_transposed(Body& b) {
  const DType c = b.accumulator();
  std::vector<ValueId> inputs = {b.cast(b.in(0), c), b.cast(b.in(1), c)};
  if (b.has(2)) inputs.push_back(b.cast(b.in(2), c));
  return {b.epilogue(b.op("ConvTranspose", inputs, transposed_attributes(b.node())), transposed_operands)};
}

/// Of `image` in place of the node's first.
ValueId qlinear_conv_of(Body& b, ValueId image) {
  const ConvSegments s(b.node());
  const ConvSegments::Quantized at = s.quantized();
  const int64_t spatial = b.rank(s.weight()) - 2;  // the weights' rank is x's, and known more often
  if (spatial < 1) fail("the weights have rank {}, expected [channels, channels, spatial…]", b.rank(s.weight()));
  const DType x_type = b.type(image), w_type = b.type(b.in(s.weight()));
  const auto number = [&](ValueId v, size_t i) {
    return s.count == 1 ? v : b.op("Slice", {v, b.ints({static_cast<int64_t>(i)}), b.ints({static_cast<int64_t>(i) + 1})});
  };
  ValueId in0 = ValueId::none;
  int64_t channel = 0;
  const bool blocked = b.node().get_int("blocked", 0) != 0;
  const auto axes = static_cast<size_t>(spatial);
  if (blocked) {  // Reshape would have to know the image's extents
    const ValueId first = b.transpose(image, channels_of_blocks(axes));
    std::vector<ValueId> parts = b.split(first, b.extent(s.weight(), 1) / channel_block, 1);
    for (ValueId& part : parts) part = b.op("Squeeze", {part, b.ints({1})});
    image = parts.size() == 1 ? parts[0] : b.op("Concat", parts, {{"axis", int64_t{1}}});
  }
  for (size_t i = 0; i < s.count; ++i) {
    const ValueId x = i == 0 ? image : b.in(i);
    ValueId w = b.in(s.weight());
    if (s.count > 1) {
      const int64_t end = channel + b.extent(i, 1);
      w = b.op("Slice", {w, b.ints({channel}), b.ints({end}), b.ints({1})});
      channel = end;
    }
    const ValueId zero = b.has(at.x_zero) ? number(b.in(at.x_zero), i) : b.number(x_type, 0);
    ValueId sum;
    if (b.has(at.w_zero) && b.rank(at.w_zero) > 0 && !(b.shape(at.w_zero)[0].known() && b.shape(at.w_zero)[0].value == 1)) {
      // ONNX Runtime's ConvInteger takes one zero point of the weights: one for each channel is subtracted before. Sums beyond 2^53
      // are none.
      const ValueId one = b.op("Reshape", {zero, b.ints({})});
      const ValueId less_x = b.op("Sub", {b.cast(x, DType::f64), b.cast(one, DType::f64)});
      const ValueId less_w =
          b.op("Sub", {b.cast(w, DType::f64), b.cast(channels(b, b.in(at.w_zero), at.w_zero, spatial + 1), DType::f64)});
      sum = b.cast(b.op("Conv", {less_x, less_w}, s.conv_attributes), DType::i32);
    } else {
      const ValueId one = s.count == 1 ? zero : b.op("Reshape", {zero, b.ints({})});
      std::vector<ValueId> inputs = {unsigned_activation(b, x), w, unsigned_activation(b, one)};
      if (b.has(at.w_zero)) inputs.push_back(zero_point(b, at.w_zero, w_type));
      sum = b.op("ConvInteger", inputs, DType::i32, s.conv_attributes);
    }
    if (b.has(s.bias())) sum = b.op("Add", {sum, channels(b, b.in(s.bias()), s.bias(), spatial)});
    const ValueId scale = scale_product(b, b.op("Reshape", {number(b.in(at.x_scale), i), b.ints({})}),
                                        channels(b, b.in(at.w_scale), at.w_scale, spatial));
    const ValueId scaled = b.op("Mul", {b.cast(sum, DType::f32), scale});
    in0 = i == 0 ? scaled : b.op("Add", {in0, scaled});
  }
  if (blocked) {
    std::vector<ValueId> parts = b.split(in0, b.extent(s.weight(), 0) / channel_block, 1);
    for (ValueId& part : parts) part = b.op("Unsqueeze", {part, b.ints({1})});
    in0 = b.transpose(parts.size() == 1 ? parts[0] : b.op("Concat", parts, {{"axis", int64_t{1}}}), blocks_of_channels(axes));
  }
  return b.epilogue(in0, at.operands);
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
      {{"ConvTranspose", smelt_domain, infer_fused_transposed, run_fused_transposed, true, expand_transposed},
       {.flops = {.count = conv_transpose_flops}, .contracts = true}},
      {{"QLinearConv", smelt_domain, infer_fused_qlinear_conv, run_fused_qlinear_conv, true, expand_qlinear_conv},
       {.flops = {.count = fused_conv_flops}, .autocast = Autocast::fp32, .contracts = true}},
      {{"StemConv", smelt_domain, infer_stem_conv, run_stem_conv, true, expand_stem<conv_of>},
       {.flops = {.count = stem_conv_flops}, .contracts = true}},
      {{"StemQLinearConv", smelt_domain, infer_stem_conv, run_stem_conv, true, expand_stem<qlinear_conv_of>},
       {.flops = {.count = stem_conv_flops}, .autocast = Autocast::fp32, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
