// Convolutions on a GPU against the reference: their cases and how a test runs one.
#pragma once

#include "gpu_trial.h"
#include "ops/conv/problem.h"

namespace smelt::ops {

using Ints = std::vector<int64_t>;

struct ConvCase {
  std::vector<Shape> x;
  Shape w;
  Ints stride, pads, dilation;
  int64_t group = 1;
  bool transposed = false;
  Ints upsample, output_padding;
  std::string program;  // over the sums and one operand of y's shape or [1, M, 1, 1]
  std::vector<Shape> operands;
  bool bias = true;
  bool constant = true;  // the weights
};

inline ConvCase conv_case(Shape x, Shape w, Ints stride = {}, Ints pads = {}) {
  ConvCase c;
  c.x = {std::move(x)};
  c.w = std::move(w);
  c.stride = std::move(stride);
  c.pads = std::move(pads);
  return c;
}

inline ConvCase transposed_case(Shape x, Shape w, Ints stride, Ints pads = {}, Ints output_padding = {}, Ints dilation = {},
                                int64_t group = 1) {
  ConvCase c = conv_case(std::move(x), std::move(w), std::move(stride), std::move(pads));
  c.transposed = true;
  c.output_padding = std::move(output_padding), c.dilation = std::move(dilation);
  c.group = group;
  return c;
}

inline Trial conv_trial(const ConvCase& c, DType type, Layout layout) {
  Trial t;
  const bool fused = c.x.size() > 1 || !c.program.empty() || !c.upsample.empty();
  t.node.op = c.transposed ? "ConvTranspose" : "Conv";
  t.node.domain = fused ? smelt_domain : onnx_domain;
  if (fused) t.node.attrs["segments"] = static_cast<int64_t>(c.x.size());
  if (!c.stride.empty()) t.node.attrs["strides"] = c.stride;
  if (!c.pads.empty()) t.node.attrs["pads"] = c.pads;
  if (!c.dilation.empty()) t.node.attrs["dilations"] = c.dilation;
  if (!c.upsample.empty()) t.node.attrs["upsample"] = c.upsample;
  if (!c.output_padding.empty()) t.node.attrs["output_padding"] = c.output_padding;
  if (c.group != 1) t.node.attrs["group"] = c.group;
  if (!c.program.empty()) t.node.program = expr::Program::parse(c.program);
  uint32_t seed = 1;
  for (const Shape& x : c.x) t.add(random_tensor(type, x, seed++), false, layout);
  t.add(random_tensor(type, c.w, 50), c.constant);
  if (c.bias)
    t.add(random_tensor(type, {c.transposed ? c.w[1] * c.group : c.w[0]}, 51), true);
  else if (!c.operands.empty())
    t.add({}, false);
  for (const Shape& o : c.operands) t.add(random_tensor(type, o, seed++), false, layout);
  return t;
}

/// What the products and sums round to, relative to the largest output.
inline double conv_tolerance(DType type) {
  return type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : type == DType::f64 ? 1e-13 : 3e-6;
}

/// Names of the candidates that are meant, all of which agree.
inline std::vector<std::string> check_conv(const ConvCase& c, DType type, Layout layout,
                                           const std::function<bool(const Candidate&)>& is_meant = {}) {
  SCOPED_TRACE(::testing::Message() << name(type) << ' ' << name(layout));
  Trial t = conv_trial(c, type, layout);
  const Tensor want = expected(t);
  t.result(want.type(), want.shape(), layout);
  const auto names = agree_on_gpu(t, {want}, conv_tolerance(type), is_meant);
  EXPECT_FALSE(names.empty());
  return names;
}

/// Puts `value` so many elements behind the middle of a channels-last image of f16, and gives the trial its result, which is returned.
inline Tensor result_with(Trial& t, int64_t behind, float value) {
  Tensor x = t.inputs[0].cast(DType::f32);
  x.data<float>()[x.size() / 2 + behind] = value;
  t.inputs[0] = x.cast(DType::f16);
  Tensor want = expected(t);
  t.result(want.type(), want.shape(), Layout::nhwc);
  t.bound.node = &t.node;
  return want;
}

}  // namespace smelt::ops
