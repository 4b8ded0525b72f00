// Convolutions of ai.smelt as the tests of every kernel have them.
#pragma once

#include "ops/tactic_check.h"

namespace smelt::ops {

/// A convolution of ai.smelt over inputs of these shapes, constant weight and bias.
struct ConvCase {
  std::vector<Shape> x;
  Shape w;
  std::vector<int64_t> stride = {1, 1}, pads = {0, 0, 0, 0}, dilation = {1, 1}, upsample;
  int64_t group = 1;
  DType type = DType::f32;
};

inline Tensor concatenated(const std::vector<Tensor>& parts, const std::vector<int64_t>& upsample) {
  Shape shape = parts[0].shape();
  const int64_t factor = upsample.empty() ? 1 : upsample[0];
  shape[1] = 0;
  shape[2] *= factor;
  shape[3] *= factor;
  for (const Tensor& p : parts) shape[1] += p.shape()[1];
  Tensor all = Tensor::empty(DType::f64, shape);
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor in = parts[i].cast(DType::f64);
    const int64_t f = upsample.empty() ? 1 : upsample[i];
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t c = 0; c < in.shape()[1]; ++c) {
        for (int64_t y = 0; y < shape[2]; ++y) {
          for (int64_t x = 0; x < shape[3]; ++x) {
            all.data<double>()[((n * shape[1] + first + c) * shape[2] + y) * shape[3] + x] =
                in.data<double>()[((n * in.shape()[1] + c) * in.shape()[2] + y / f) * in.shape()[3] + x / f];
          }
        }
      }
    }
    first += in.shape()[1];
  }
  return all;
}

inline Trial trial(const ConvCase& c, Layout layout = Layout::nhwc) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  t.node.attrs["segments"] = static_cast<int64_t>(c.x.size());
  t.node.attrs["strides"] = c.stride;
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["dilations"] = c.dilation;
  t.node.attrs["group"] = c.group;
  if (!c.upsample.empty()) t.node.attrs["upsample"] = c.upsample;
  for (size_t i = 0; i < c.x.size(); ++i) t.add(random_tensor(c.type, c.x[i], static_cast<uint32_t>(i)), false, layout);
  t.add(random_tensor(c.type, c.w, 50), true);
  t.add(random_tensor(c.type, {c.w[0]}, 51), true);
  return t;
}

/// conv + bias in f64, by the ONNX operator's reference.
inline Tensor sums(const ConvCase& c, const Trial& t) {
  Node conv;
  conv.op = "Conv";
  for (const char* a : {"strides", "pads", "dilations", "group"}) conv.attrs[a] = t.node.attrs.at(a);
  for (int i = 0; i < 3; ++i) conv.inputs.push_back(static_cast<ValueId>(i));
  conv.outputs = {static_cast<ValueId>(9)};
  const size_t k = c.x.size();
  const std::vector<Tensor> parts(t.inputs.begin(), t.inputs.begin() + static_cast<int64_t>(k));
  const std::vector<Tensor> in = {concatenated(parts, c.upsample), t.inputs[k].cast(DType::f64),
                                  t.inputs[k + 1].cast(DType::f64)};
  return evaluate(conv, in)[0];
}

inline std::vector<std::string> agree(Trial& t, const Tensor& want) { return agree(t, want, 2e-6); }

/// Whether smelt's kernel takes the convolution alone, before a program that tiles do not apply, and before one with a residual.
inline void runs_with_and_without_programs(const ConvCase& c) {
  const std::string general = "(in0:f32) { %1 = gelu(in0):f32; return %1 }";
  const std::string residual =
      "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = hard_swish(%2):f32; %4 = const(2):f32; %5 = mul(%3, %4):f32; return %5 "
      "}";
  SCOPED_TRACE(to_string(c.x[0]) + " " + to_string(c.w));
  Trial plain = trial(c);
  const Tensor want = sums(c, plain);
  plain.result(DType::f32, want.shape(), Layout::nhwc);
  EXPECT_THAT(agree(plain, want), testing::Contains("avx2"));
  for (const std::string& program : {general, residual}) {
    Trial t = trial(c);
    t.node.program = expr::Program::parse(program);
    if (program == residual) t.add(random_tensor(DType::f32, want.shape(), 7), false, Layout::nhwc);
    t.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_THAT(check(t, 2e-6), testing::Contains("avx2")) << program;
  }
}

inline ConvCase one(Shape x, Shape w, std::vector<int64_t> stride = {1, 1}, std::vector<int64_t> pads = {0, 0, 0, 0}) {
  ConvCase c;
  c.x = {std::move(x)};
  c.w = std::move(w);
  c.stride = std::move(stride);
  c.pads = std::move(pads);
  return c;
}

/// A convolution of ai.smelt with a program over its result, along any number of axes.
inline Trial along_axes(const Shape& x, const Shape& w, int64_t group, DType type, Layout layout, const std::string& program,
                        const std::vector<Shape>& operands) {
  const size_t axes = x.size() - 2;
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  t.node.attrs["segments"] = int64_t{1};
  t.node.attrs["strides"] = std::vector<int64_t>(axes, 2);
  t.node.attrs["dilations"] = std::vector<int64_t>(axes, 1);
  std::vector<int64_t> pads(axes, 1);
  pads.insert(pads.end(), axes, 0);
  t.node.attrs["pads"] = pads;
  t.node.attrs["group"] = group;
  if (!program.empty()) t.node.program = expr::Program::parse(program);
  Shape y = x;
  y[1] = w[0];
  for (size_t a = 2; a < x.size(); ++a) y[a] = (x[a] + 1 - w[a]) / 2 + 1;
  t.add(random_tensor(type, x, 1), false, layout);
  t.add(random_tensor(type, w, 2), true);
  t.add(random_tensor(type, {w[0]}, 3), true);
  for (const Shape& s : operands) {
    Shape full = s;
    for (size_t a = 0; a < s.size(); ++a)
      if (s[a] < 0) full[a] = y[a + y.size() - s.size()];
    t.add(random_tensor(type, full, 4), false, full == y ? layout : Layout::plain);
  }
  t.result(type, y, layout);
  return t;
}

}  // namespace smelt::ops
