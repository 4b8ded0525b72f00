#include <map>

#include "ops/conv/problem.h"
#include "ops/tactic_check.h"
#include "smelt/error.h"
#include "support/conv_geometries.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;

/// A convolution of ai.smelt over inputs of these shapes, constant weight and bias.
struct Case {
  std::vector<Shape> x;
  Shape w;
  std::vector<int64_t> stride = {1, 1}, pads = {0, 0, 0, 0}, dilation = {1, 1}, upsample;
  int64_t group = 1;
  DType type = DType::f32;
};

Tensor concatenated(const std::vector<Tensor>& parts, const std::vector<int64_t>& upsample) {
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

Trial trial(const Case& c, Layout layout = Layout::nhwc) {
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
Tensor sums(const Case& c, const Trial& t) {
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

std::vector<std::string> agree(Trial& t, const Tensor& want) { return agree(t, want, 2e-6); }

Case one(Shape x, Shape w, std::vector<int64_t> stride = {1, 1}, std::vector<int64_t> pads = {0, 0, 0, 0}) {
  Case c;
  c.x = {std::move(x)};
  c.w = std::move(w);
  c.stride = std::move(stride);
  c.pads = std::move(pads);
  return c;
}

std::vector<Case> shapes() {
  std::vector<Case> all;
  for (const test::ConvGeometry& g : test::conv_geometries()) all.push_back(one(g.x, g.w, g.stride, g.pads));
  Case dilated = one({1, 12, 11, 13}, {20, 12, 3, 3}, {1, 1}, {2, 2, 2, 2});
  dilated.dilation = {2, 2};
  all.push_back(dilated);
  Case grouped = one({1, 12, 8, 8}, {18, 4, 3, 3}, {1, 1}, {1, 1, 1, 1});
  grouped.group = 3;
  all.push_back(grouped);
  Case depthwise = one({2, 24, 9, 9}, {24, 1, 5, 5}, {2, 2}, {2, 2, 2, 2});
  depthwise.group = 24;
  all.push_back(depthwise);
  return all;
}

TEST(ConvTactics, agree_with_the_reference_on_every_listed_shape) {
  for (const Case& c : shapes()) {
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_FALSE(agree(t, want).empty());
  }
}

TEST(ConvTactics, agree_with_the_reference_on_plain_images) {
  const Case c = one({1, 16, 12, 10}, {24, 16, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c, Layout::plain);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape());
  EXPECT_THAT(agree(t, want), testing::Contains("onednn"));
}

TEST(ConvTactics, read_a_plain_image_of_three_channels_into_a_channels_last_one) {
  const Case c = one({2, 3, 30, 31}, {20, 3, 3, 3}, {2, 2}, {1, 1, 1, 1});
  Trial t = trial(c, Layout::plain);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  EXPECT_THAT(agree(t, want), testing::Contains("avx2"));
}

TEST(ConvTactics, read_several_inputs_in_place_one_of_them_upsampled) {
  Case c;
  c.x = {{1, 10, 4, 6}, {1, 7, 8, 12}};
  c.w = {19, 17, 3, 3};
  c.pads = {1, 1, 1, 1};
  c.upsample = {2, 1};
  Trial t = trial(c);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  EXPECT_THAT(agree(t, want), testing::IsSupersetOf({"avx2", "winograd", "onednn"}));
}

TEST(ConvTactics, read_and_write_slices_of_wider_images) {
  const Case c = one({1, 12, 6, 7}, {20, 12, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c);
  const Tensor want = sums(c, t);
  t.result(DType::f32, want.shape(), Layout::nhwc);
  t.bound.inputs[0].strides = {6 * 7 * 30, 1, 7 * 30, 30};
  t.bound.outputs[0].strides = {6 * 7 * 50, 1, 7 * 50, 50};
  EXPECT_EQ(agree(t, want), (std::vector<std::string>{"avx2", "winograd"}));
}

TEST(ConvTactics, winograd_takes_every_size_of_image_and_padding) {
  const Case cases[] = {
      one({1, 8, 3, 3}, {1, 8, 3, 3}),                             // one output
      one({2, 9, 4, 5}, {17, 9, 3, 3}, {1, 1}, {0, 1, 2, 0}),      // pads of its own on every side
      one({1, 520, 5, 6}, {70, 520, 3, 3}, {1, 1}, {1, 1, 1, 1}),  // channels in two parts, outputs in two slices
      one({1, 64, 57, 39}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}),  // more tiles than a block holds
      one({3, 16, 31, 30}, {40, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}),  // tiles of several images in one block
  };
  for (const Case& c : cases) {
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_THAT(agree(t, want, 3e-6), testing::Contains("winograd"));
  }
}

TEST(ConvTactics, run_a_channel_a_group_for_every_window_stride_and_border) {
  const auto depthwise = [](Shape x, Shape window, std::vector<int64_t> stride, std::vector<int64_t> pads,
                            std::vector<int64_t> dilation = {1, 1}) {
    Case c = one(x, {x[1], 1, window[0], window[1]}, std::move(stride), std::move(pads));
    c.group = x[1];
    c.dilation = std::move(dilation);
    return c;
  };
  std::vector<Case> cases = {
      depthwise({1, 16, 1, 1}, {5, 5}, {1, 1}, {2, 2, 2, 2}),   // a window larger than the image
      depthwise({1, 9, 4, 3}, {3, 3}, {1, 1}, {4, 4, 4, 4}),    // windows that lie outside altogether
      depthwise({1, 33, 6, 21}, {2, 1}, {2, 1}, {0, 0, 1, 0}),  // no border along a line
      depthwise({2, 24, 11, 40}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}),
      depthwise({1, 40, 9, 30}, {3, 5}, {2, 3}, {1, 0, 0, 3}, {1, 4}),
      depthwise({1, 2, 7, 90}, {1, 31}, {1, 1}, {0, 15, 0, 15}),  // speech models' windows along one axis
  };
  for (int64_t taps : {3, 5, 7})
    for (int64_t stride : {1, 2})
      for (int64_t channels : {8, 19, 48})
        cases.push_back(depthwise({2, channels, 8, 27}, {taps, taps}, {stride, stride}, std::vector<int64_t>(4, taps / 2)));
  const std::string general = "(in0:f32) { %1 = gelu(in0):f32; return %1 }";
  const std::string residual =
      "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = hard_swish(%2):f32; %4 = const(2):f32; %5 = mul(%3, %4):f32; return %5 "
      "}";
  for (const Case& c : cases) {
    Trial plain = trial(c);
    const Tensor want = sums(c, plain);
    plain.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_THAT(agree(plain, want), testing::Contains("avx2")) << to_string(c.x[0]) << " " << to_string(c.w);
    for (const std::string& program : {general, residual}) {
      Trial t = trial(c);
      t.node.program = Program::parse(program);
      if (program == residual) t.add(random_tensor(DType::f32, want.shape(), 7), false, Layout::nhwc);
      t.result(DType::f32, want.shape(), Layout::nhwc);
      EXPECT_THAT(check(t, 2e-6), testing::Contains("avx2")) << to_string(c.x[0]) << " " << to_string(c.w) << program;
    }
  }
  // Between the channels of other tensors.
  Trial sliced = trial(cases[3]);
  const Tensor want = sums(cases[3], sliced);
  sliced.result(DType::f32, want.shape(), Layout::nhwc);
  sliced.bound.inputs[0].strides = {11 * 40 * 30, 1, 40 * 30, 30};
  sliced.bound.outputs[0].strides = {11 * 40 * 50, 1, 40 * 50, 50};
  EXPECT_THAT(agree(sliced, want), testing::Contains("avx2"));
}

TEST(ConvTactics, winograd_is_as_exact_as_the_direct_form) {
  const Case c = one({1, 256, 14, 14}, {64, 256, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c);
  const std::vector<double> want = sums(c, t).to_doubles();
  t.result(DType::f32, {1, 64, 14, 14}, Layout::nhwc);
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 2;
  const Offer o = offer(t.bound, machine);
  std::map<std::string, double> squares;
  for (const Candidate& c : o.candidates) {
    const std::vector<double> got = run(t, c).to_doubles();
    for (size_t i = 0; i < want.size(); ++i) squares[c.tactic] += (got[i] - want[i]) * (got[i] - want[i]);
  }
  EXPECT_LE(squares.at("winograd"), 4 * squares.at("avx2"));  // twice the error, as every fused form is allowed
}

TEST(ConvTactics, winograd_leaves_other_windows_strides_and_types) {
  Case dilated = one({1, 16, 12, 12}, {16, 16, 3, 3});
  dilated.dilation = {2, 2};
  Case half = one({1, 16, 12, 12}, {16, 16, 3, 3});
  half.type = DType::f16;
  for (const Case& c : {one({1, 16, 12, 12}, {16, 16, 5, 5}), one({1, 16, 12, 12}, {16, 16, 3, 3}, {2, 2}),
                        one({1, 4, 12, 12}, {16, 4, 3, 3}), dilated, half}) {
    Trial t = trial(c);
    t.result(c.type, sums(c, t).shape(), Layout::nhwc);
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = 2;
    for (const Candidate& candidate : offer(t.bound, machine).candidates) EXPECT_NE(candidate.tactic, "winograd");
  }
}

double largest(const Tensor& t) {
  double most = 0;
  for (double v : t.to_doubles()) most = std::max(most, std::abs(v));
  return most;
}

/// y = f(sums, operand) for a program of one operand.
void check_program(const Case& c, const Program& p, Tensor operand, bool constant, double (*f)(double, double)) {
  Trial t = trial(c);
  const Tensor base = sums(c, t);
  const Shape shape = base.shape();
  Tensor want = base.clone();
  t.node.program = p;
  if (operand.valid()) {
    const Tensor wide = operand.cast(DType::f64);
    for (int64_t i = 0; i < want.size(); ++i) {
      const int64_t channel = i / (shape[2] * shape[3]) % shape[1], image = i / (shape[1] * shape[2] * shape[3]);
      const int64_t at = wide.size() == want.size() ? i
                         : wide.size() == shape[1]  ? channel
                         : wide.size() == 1         ? 0
                                                    : image * shape[1] + channel;
      want.data<double>()[i] = f(want.data<double>()[i], wide.data<double>()[at]);
    }
    t.add(operand, constant, operand.rank() == 4 && !constant ? Layout::nhwc : Layout::plain);
  } else {
    for (double& v : want.span<double>()) v = f(v, 0);
  }
  t.result(DType::f32, shape, Layout::nhwc);
  // The program may shrink the values (clip), but not the sums' rounding.
  EXPECT_FALSE(agree(t, want, 2e-6 * std::max(1.0, largest(base) / largest(want))).empty());
}

double relu(double v) { return std::max(v, 0.0); }

TEST(ConvTactics, apply_every_kind_of_epilogue) {
  const Case c = one({2, 20, 9, 8}, {27, 20, 3, 3}, {1, 1}, {1, 1, 1, 1});
  const Case deep = one({2, 400, 5, 4}, {27, 400, 1, 1});
  for (const Case& at : {c, deep}) {
    const Shape y = at.x[0][2] == 9 ? Shape{2, 27, 9, 8} : Shape{2, 27, 5, 4};
    Program p;
    p.output(p.call(Fn::relu, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return relu(a); });
    p = {};
    p.output(p.call(Fn::hard_swish, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0); });
    p = {};
    const expr::Ref sum = p.input(DType::f32), low = p.constant(DType::f32, -0.25);
    p.output(p.call(Fn::clip, sum, low, p.constant(DType::f32, 1.5)));
    check_program(at, p, {}, false, [](double a, double) { return std::min(std::max(a, -0.25), 1.5); });
    p = {};
    expr::Ref swish = p.call(Fn::hard_swish, p.input(DType::f32));
    p.output(p.call(Fn::add, p.call(Fn::mul, swish, p.constant(DType::f32, 0.75)), p.constant(DType::f32, -0.125)));
    check_program(at, p, {}, false,
                  [](double a, double) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0) * 0.75 - 0.125; });
    p = {};
    p.output(p.call(Fn::add, p.constant(DType::f32, 0.5), p.call(Fn::relu, p.input(DType::f32))));
    check_program(at, p, {}, false, [](double a, double) { return relu(a) + 0.5; });
    p = {};
    p.output(p.call(Fn::mul, p.constant(DType::f32, -3), p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return a * -3; });
    p = {};
    p.output(p.call(Fn::gelu, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return a * 0.5 * (1 + std::erf(a / std::sqrt(2.0))); });
    p = {};
    expr::Ref a = p.input(DType::f32), b = p.input(DType::f32);
    p.output(p.call(Fn::relu, p.call(Fn::add, b, a)));
    check_program(at, p, random_tensor(DType::f32, y, 7), false, [](double s, double r) { return relu(s + r); });
    check_program(at, p, random_tensor(DType::f32, {27, 1, 1}, 8), true, [](double s, double r) { return relu(s + r); });
    p = {};
    a = p.input(DType::f32), b = p.input(DType::f32);
    p.output(p.call(Fn::mul, a, b));
    check_program(at, p, random_tensor(DType::f32, {2, 27, 1, 1}, 9), false, [](double s, double r) { return s * r; });
    check_program(at, p, random_tensor(DType::f32, {1}, 10), true, [](double s, double r) { return s * r; });
  }
}

/// A convolution of ai.smelt with a program over its result, along any number of axes.
Trial along_axes(const Shape& x, const Shape& w, int64_t group, DType type, Layout layout, const std::string& program,
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
  if (!program.empty()) t.node.program = Program::parse(program);
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

TEST(ConvTactics, run_one_to_three_axes_with_any_program_in_either_layout) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; return %1 }",
                    relu_text = "(in0:f32) { %1 = relu(in0):f32; return %1 }";
  const std::string scaled =
      "(in0:f32, in1:f32, in2:f32) { %3 = sigmoid(in0):f32; %4 = mul(%3, in1):f32; %5 = add(%4, in2):f32; return %5 }";
  const std::vector<Shape> images = {{2, 12, 19}, {2, 12, 9, 11}, {2, 12, 5, 7, 6}};
  for (const Shape& x : images) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      const Shape per_channel = [&] {
        Shape s(x.size() - 1, 1);
        s[0] = -1;
        return s;
      }();
      const Shape like_y(x.size(), -1), row = {-1};
      for (Layout layout : {Layout::plain, Layout::nhwc}) {
        for (const auto& [program, operands] : {std::pair<std::string, std::vector<Shape>>{"", {}},
                                                {gelu, {}},
                                                {relu_text, {}},
                                                {scaled, {per_channel, like_y}},
                                                {scaled, {like_y, row}}}) {
          Trial t = along_axes(x, w, group, DType::f32, layout, program, operands);
          const auto found = check(t, 2e-6);
          EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
              << to_string(x) << " group " << group << " " << name(layout) << " " << program;
        }
      }
    }
  }
}

TEST(ConvTactics, run_half_precision_along_any_number_of_axes) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; %2 = cast(%1):f16; return %2 }";
  for (const Shape& x : {Shape{2, 12, 19}, Shape{2, 12, 9, 11}, Shape{2, 12, 5, 7, 6}}) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      for (Layout layout : {Layout::plain, Layout::nhwc}) {
        Trial t = along_axes(x, w, group, DType::f16, layout, gelu, {});
        const auto found = check(t, 1.0 / 2048);
        EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
            << to_string(x) << " group " << group << " " << name(layout);
      }
    }
  }
}

TEST(ConvTactics, take_weights_and_a_bias_that_are_computed) {
  for (const Shape& x : {Shape{2, 12, 19}, Shape{2, 12, 9, 11}, Shape{2, 12, 5, 7, 6}}) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      for (DType type : {DType::f32, DType::f16}) {
        for (Layout layout : {Layout::plain, Layout::nhwc}) {
          Trial t = along_axes(x, w, group, type, layout, "", {});
          t.bound.inputs[1].constant = {};
          if (type == DType::f32) t.bound.inputs[2].constant = {};
          const auto found = check(t, type == DType::f32 ? 2e-6 : 1.0 / 2048);
          EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
              << to_string(x) << " group " << group << " " << name(type) << " " << name(layout);
        }
      }
    }
  }
}

TEST(ConvTactics, offer_a_program_apart_from_the_convolution) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; return %1 }";
  Trial t = along_axes({1, 16, 20, 20}, {32, 16, 3, 3}, 1, DType::f32, Layout::nhwc, gelu, {});
  EXPECT_FALSE(check(t, 2e-6).empty());
  const Offer o = offer(t.bound, Machine{});
  EXPECT_TRUE(std::ranges::any_of(o.candidates, [](const Candidate& c) { return c.config.ends_with("program apart"); }));
}

TEST(ConvTactics, offer_several_inputs_joined_for_kernels_of_one) {
  for (Layout layout : {Layout::plain, Layout::nhwc}) {
    Case c;
    c.x = {{2, 10, 4, 6}, {2, 7, 8, 12}, {2, 3, 8, 12}};
    c.w = {19, 20, 3, 3};
    c.pads = {1, 1, 1, 1};
    c.upsample = {2, 1, 1};
    Trial t = trial(c, layout);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), layout);
    EXPECT_THAT(agree(t, want), testing::Contains("onednn"));
  }
}

TEST(ConvTactics, share_a_problem_between_one_axis_and_an_image_of_one_row) {
  Trial line = along_axes({1, 16, 40}, {32, 16, 3}, 1, DType::f32, Layout::nhwc, "", {});
  Trial image = trial(one({1, 16, 1, 40}, {32, 16, 1, 3}, {1, 2}, {0, 1, 0, 0}));
  image.result(DType::f32, {1, 32, 1, 20}, Layout::nhwc);
  line.bound.node = &line.node;
  image.bound.node = &image.node;
  EXPECT_EQ(offer(line.bound, Machine{}).problem, offer(image.bound, Machine{}).problem);
}

TEST(ConvTactics, compute_half_precision_in_f32_and_round_once) {
  for (DType type : {DType::f16, DType::bf16}) {
    Case c = one({1, 33, 6, 6}, {18, 33, 3, 3}, {1, 1}, {1, 1, 1, 1});
    c.type = type;
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(type, want.shape(), Layout::nhwc);
    EXPECT_FALSE(agree(t, want, type == DType::f16 ? 1.0 / 2048 : 1.0 / 256).empty());
  }
}

TEST(ConvTactics, transposed_with_windows_side_by_side_agrees) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = std::vector<int64_t>{2, 2};
  t.add(random_tensor(DType::f32, {1, 20, 5, 6}, 1), false, Layout::nhwc);
  t.add(random_tensor(DType::f32, {20, 11, 2, 2}, 2), true);
  t.add(random_tensor(DType::f32, {11}, 3), true);
  t.result(DType::f32, {1, 11, 10, 12}, Layout::nhwc);
  t.bound.outputs[0].strides = {10 * 12 * 40, 1, 12 * 40, 40};
  EXPECT_EQ(check(t, 1e-6), std::vector<std::string>{"avx2"});
  t.bound.outputs[0].strides.clear();
  EXPECT_GE(check(t, 1e-6).size(), 2u);
}

TEST(ConvTactics, transposed_with_overlapping_windows_leaves_the_indirect_product) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = std::vector<int64_t>{2, 2};
  t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1};
  t.add(random_tensor(DType::f32, {1, 16, 5, 6}, 1), false, Layout::nhwc);
  t.add(random_tensor(DType::f32, {16, 8, 4, 4}, 2), true);
  t.result(DType::f32, {1, 8, 10, 12}, Layout::nhwc);
  EXPECT_THAT(check(t, 1e-6), testing::Not(testing::Contains("avx2")));
}

TEST(ConvProblem, prints_shapes_geometry_layouts_and_epilogue) {
  conv::Problem p;
  p.x = {{{1, 64, 56, 56}}};
  p.w = {64, 64, 3, 3};
  p.y = {1, 64, 56, 56};
  p.stride = p.dilation = p.pad_begin = p.pad_end = {1, 1};
  p.epilogue = "bias+relu";
  EXPECT_EQ(conv::print(p), "conv:f32>f32:1x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu");
  p.transposed = true;
  p.group = 2;
  EXPECT_EQ(conv::print(p), "convt:f32>f32:1x64x56x56,64x64x3x3:s1p1g2o56x56:nhwc:bias+relu");
}

TEST(ConvProblem, prints_each_input_and_what_differs_between_axes) {
  conv::Problem p;
  p.input = p.output = DType::f16;
  p.x = {{{2, 10, 4, 6}, 2}, {{2, 7, 8, 12}, 1, {1344, 96, 12, 1}}};
  p.w = {19, 17, 3, 3};
  p.y = {2, 19, 8, 6};
  p.y_strides = {50176, 784, 28, 1};
  p.stride = {1, 2};
  p.dilation = {1, 1};
  p.pad_begin = {0, 1};
  p.pad_end = {1, 1};
  p.from = Layout::plain;
  EXPECT_EQ(conv::print(p), "conv:f16>f16:2x10x4x6u2+2x7x8x12v1344x96x12x1,19x17x3x3:s1x2p0x1-1:plain>nhwcv50176x784x28x1:none");
}

}  // namespace
}  // namespace smelt::ops
