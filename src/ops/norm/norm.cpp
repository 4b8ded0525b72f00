// Normalisation over groups of elements: InstanceNormalization, GroupNormalization, LayerNormalization, RMSNormalization,
// MeanVarianceNormalization, LpNormalization. BatchNormalization and LRN are in batch.cpp, ONNX Runtime's variants in skip.cpp.
#include <cmath>

#include "base/error.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/norm/family.h"
#include "ops/norm/moments.h"

namespace smelt::ops {
namespace {

int64_t channels_of(const Shape& x) {
  if (x.size() < 2) fail("X has shape {}, expected [N, C, …]", to_string(x));
  return x[1];
}

void infer_per_channel(InferContext& c) {
  const Shape& x = c.shape(0);
  const int64_t channels = channels_of(x);
  for (size_t i : {size_t{1}, size_t{2}}) {
    // GroupNormalization before opset 21 had one scale and bias a group.
    const bool per_group = c.node.op == "GroupNormalization" && c.shape(i) == Shape{c.node.get_int("num_groups", 0)};
    if (c.shape(i) != Shape{channels} && !per_group)
      fail("input {} has shape {}, expected [{}]", i, to_string(c.shape(i)), channels);
  }
  if (c.node.op == "GroupNormalization") {
    const int64_t groups = c.node.get_int("num_groups", 0);
    if (groups < 1 || channels % groups) fail("num_groups {} does not divide C = {}", groups, channels);
  }
  same_as(c, 0, 0);
}

/// y = (x - mean) * rsqrt(var + epsilon) * scale + bias over each of `groups` groups of channels of an item.
void normalize_groups(ComputeContext& ctx, int64_t groups) {
  in_float(ctx, [groups](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const int64_t channels = shape[1], plane = elements(Shape(shape.begin() + 2, shape.end()));
    const double epsilon = c.node.get_float("epsilon", 1e-5f);
    const T *x = c.in(0).data<T>(), *scale = c.in(1).data<T>(), *bias = c.in(2).data<T>();
    T* y = c.outputs[0].data<T>();
    if (c.in(0).size() == 0) return;
    const int64_t per_group = channels / groups, per_parameter = channels / c.in(1).size();
    for (int64_t g = 0; g < shape[0] * groups; ++g) {
      const Moments m = moments(x + g * per_group * plane, per_group * plane);
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      for (int64_t k = 0; k < per_group; ++k) {
        const int64_t p = (g % groups * per_group + k) / per_parameter, base = (g * per_group + k) * plane;
        for (int64_t i = base; i < base + plane; ++i) {
          y[i] = static_cast<T>((static_cast<double>(x[i]) - m.mean) * inverse * static_cast<double>(scale[p]) +
                                static_cast<double>(bias[p]));
        }
      }
    }
  });
}

void run_instance(ComputeContext& c) { normalize_groups(c, c.in(0).shape()[1]); }
void run_group(ComputeContext& c) { normalize_groups(c, c.node.get_int("num_groups", 1)); }

/// Axis from which a LayerNormalization-like node normalises.
size_t first_axis(const Node& node, const Shape& x) {
  return static_cast<size_t>(normalize_axis(node.get_int("axis", -1), static_cast<int64_t>(x.size())));
}

void infer_layer(InferContext& c) {
  const Shape& x = c.shape(0);
  const size_t axis = first_axis(c.node, x);
  for (size_t i = 1; i < 3; ++i) {
    if (c.has(i)) broadcast_strides(c.shape(i), x);
  }
  c.set(0, c.node.op == "LayerNormalization" ? type_of(c, 0) : type_of(c, 1), x);
  Shape kept(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
  kept.resize(x.size(), 1);
  const DType stash = c.in(0).type == DType::f64 ? DType::f64 : static_cast<DType>(c.node.get_int("stash_type", 1));
  c.set(1, stash, kept);
  c.set(2, stash, kept);
}

void run_layer(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const size_t axis = first_axis(c.node, shape);
    const int64_t row = elements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()));
    const bool rms = c.node.op != "LayerNormalization";
    const double epsilon = c.node.get_float("epsilon", 1e-5f);
    const BroadcastOperand<T> scale(c.in(1), shape), bias(c.in(2), shape);
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    const int64_t rows = elements(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)));
    for (int64_t r = 0; r < rows; ++r) {  // of rows without elements, too: their mean is NaN
      const Moments m = rms ? mean_square(x + r * row, row) : moments(x + r * row, row);
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      for (int64_t i = r * row; i < (r + 1) * row; ++i) {
        y[i] = static_cast<T>((static_cast<double>(x[i]) - m.mean) * inverse * static_cast<double>(scale.at(i, 1)) +
                              static_cast<double>(bias.at(i, 0)));
      }
      if (c.outputs.size() > 1 && c.wants(1)) c.outputs[1].data<T>()[r] = static_cast<T>(m.mean);
      if (c.outputs.size() > 2 && c.wants(2)) c.outputs[2].data<T>()[r] = static_cast<T>(inverse);
    }
  });
}

void infer_same(InferContext& c) { same_as(c, 0, 0); }

void run_mean_variance(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Tensor& x = c.in(0);
    const std::vector<int64_t> axes = normalize_axes(c.node.get_ints("axes", {0, 2, 3}), x.rank());
    const ReductionNest nest = reduction_nest(x.shape(), axes);
    const T* from = x.data<T>();
    T* to = c.outputs[0].data<T>();
    const auto each = [&](int64_t start, auto&& f) {
      nest.reduced.for_each_run([&](std::span<const int64_t> at) {
        for (int64_t i = 0; i < nest.reduced.run(); ++i) f(start + at[0] + i * nest.reduced.stride(0));
      });
    };
    nest.for_each_result([&](int64_t, int64_t start) {
      double mean = 0, variance = 0;
      each(start, [&](int64_t i) { mean += static_cast<double>(from[i]); });
      mean /= static_cast<double>(nest.count);
      each(start, [&](int64_t i) { variance += (static_cast<double>(from[i]) - mean) * (static_cast<double>(from[i]) - mean); });
      const double deviation = std::sqrt(variance / static_cast<double>(nest.count)) + 1e-9;  // the function body's guard
      each(start, [&](int64_t i) { to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) / deviation); });
    });
  });
}

void run_lp(ComputeContext& ctx) {
  const int64_t p = ctx.node.get_int("p", 2);
  if (p != 1 && p != 2) fail("p is {}, expected 1 or 2", p);
  in_float(ctx, [p](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const AxisView v = around_axis(shape, normalize_axis(c.node.get_int("axis", -1), c.in(0).rank()));
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    for (int64_t o = 0; o < v.outer; ++o) {
      for (int64_t i = 0; i < v.inner; ++i) {
        const int64_t start = o * v.extent * v.inner + i;
        double sum = 0;
        for (int64_t k = 0; k < v.extent; ++k) {
          const double e = static_cast<double>(x[start + k * v.inner]);
          sum += p == 1 ? std::abs(e) : e * e;
        }
        const double norm = p == 1 ? sum : std::sqrt(sum);
        for (int64_t k = 0; k < v.extent; ++k) {
          const int64_t at = start + k * v.inner;
          y[at] = norm == 0 ? T{} : static_cast<T>(static_cast<double>(x[at]) / norm);
        }
      }
    }
  });
}

}  // namespace

void infer_batch(InferContext& c);
void run_batch(ComputeContext& c);
void run_lrn(ComputeContext& c);
void infer_skip_layer(InferContext& c);
void run_skip_layer(ComputeContext& c);

std::span<const OpRow> norm_ops() {
  static constexpr OpRow table[] = {
      {{"BatchNormalization", onnx_domain, infer_batch, run_batch}, {.shape = OutShape::input, .flops = {.of_input = 2}}},
      {{"InstanceNormalization", onnx_domain, infer_per_channel, run_instance},
       {.shape = OutShape::input, .flops = {.of_input = 8}}},
      {{"GroupNormalization", onnx_domain, infer_per_channel, run_group}, {.shape = OutShape::input, .flops = {.of_input = 8}}},
      {{"LayerNormalization", onnx_domain, infer_layer, run_layer}, {.shape = OutShape::input, .flops = {.of_input = 8}}},
      {{"RMSNormalization", onnx_domain, infer_layer, run_layer}, {.shape = OutShape::input, .flops = {.of_input = 5}}},
      // ONNX Runtime writes this one in the default domain.
      {{"SimplifiedLayerNormalization", onnx_domain, infer_layer, run_layer},
       {.shape = OutShape::input, .flops = {.of_input = 5}, .autocast = Autocast::no_form}},
      {{"SimplifiedLayerNormalization", microsoft_domain, infer_layer, run_layer},
       {.shape = OutShape::input, .flops = {.of_input = 5}, .autocast = Autocast::no_form}},
      {{"MeanVarianceNormalization", onnx_domain, infer_same, run_mean_variance},
       {.shape = OutShape::input, .expands_on_gpu = true}},
      {{"LpNormalization", onnx_domain, infer_same, run_lp}, {.shape = OutShape::input, .flops = {.of_input = 4}}},
      {{"LRN", onnx_domain, infer_same, run_lrn}, {.shape = OutShape::input, .flops = {.of_input = 8}}},
      {{"SkipLayerNormalization", microsoft_domain, infer_skip_layer, run_skip_layer},
       {.shape = OutShape::input, .flops = {.of_input = 9}}},
      {{"SkipSimplifiedLayerNormalization", microsoft_domain, infer_skip_layer, run_skip_layer},
       {.shape = OutShape::input, .flops = {.of_input = 6}}},
  };
  return table;
}

}  // namespace smelt::ops
