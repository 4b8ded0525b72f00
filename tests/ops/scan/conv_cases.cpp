// Convolutions of floats, of bytes, and transposed ones, along one to three axes.
#include "ops/scan/conv_cases.h"

#include <fmt/format.h>

#include "ops/conv/quantized_conv_case.h"
#include "ops/scan/endings.h"

namespace smelt::ops::scan {
namespace {

/// What a convolution is of: extents of the image, the weights and the result.
struct Geometry {
  Shape x, w, y;
  std::vector<int64_t> strides, pads, dilations;
  int64_t group = 1;
};

/// Of 1 to 3 axes, some millions of products at most. Windows that strides divide, strides above windows, padding up to the
/// window's reach, unequal on both sides, and rows of the image that no window ends at.
Geometry geometry(Choices& c, size_t axes, double most_products, bool groups = true) {
  Geometry g;
  std::vector<int64_t> begin, end;
  g.x = {c.between(1, 3), 0};
  g.y = {g.x[0], 0};
  double products = static_cast<double>(g.x[0]);
  const bool patches = c.one_in(4);  // windows side by side, or half over one another, without padding
  const bool square = patches || c.one_in(2);
  const int64_t widest = axes == 3 ? 4 : 8;
  for (size_t a = 0; a < axes; ++a) {
    const bool first = a == 0 || !square;
    const int64_t side = patches && first ? c.of<int64_t>({2, 3, 4, 8}) : 0;
    const int64_t window = side > 0 ? std::min<int64_t>(side * c.between(1, 2), 8) : first ? c.between(1, widest) : g.w[a - 1];
    const int64_t stride = side > 0 ? side : first ? (c.one_in(3) ? c.between(1, 8) : c.between(1, 3)) : g.strides[a - 1];
    const int64_t dilation = first ? (!patches && c.one_in(4) ? c.between(1, 3) : 1) : g.dilations[a - 1];
    const int64_t reach = (window - 1) * dilation;
    const int64_t before = !patches && c.one_in(2) ? c.between(0, std::min<int64_t>(reach, 4)) : 0;
    const int64_t after = square ? before : c.one_in(2) ? c.between(0, std::min<int64_t>(reach, 4)) : 0;
    const int64_t results = axes == 1 ? c.extent(130) : axes == 2 ? c.extent(33) : c.extent(9);
    const int64_t rest = c.between(0, stride - 1);
    const int64_t extent = std::max<int64_t>(1, (results - 1) * stride + reach + 1 + rest - before - after);
    g.w.push_back(window), g.strides.push_back(stride), g.dilations.push_back(dilation);
    begin.push_back(before), end.push_back(after);
    g.x.push_back(extent), g.y.push_back((extent + before + after - reach - 1) / stride + 1);
    products *= static_cast<double>(window * g.y.back());
  }
  const int64_t kind = groups ? c.below(5) : 0;  // three of five have one group
  int64_t in = c.extent(200), out = c.extent(200);
  if (kind == 1) {
    g.group = in, in = 1, out = c.one_in(5) ? 2 : 1;
  } else if (kind == 2) {
    g.group = c.between(2, 6), in = (in + g.group - 1) / g.group, out = (out + g.group - 1) / g.group;
  }
  while (products * static_cast<double>(in * out * g.group) > most_products && in * out * g.group > 1) {
    if (g.group > 1 && in * out <= 2)
      g.group = (g.group + 1) / 2;
    else if (in > out)
      in = (in + 1) / 2;
    else
      out = (out + 1) / 2;
    if (in * out * g.group == 2 || (in == 1 && out == 1 && g.group == 1)) break;
  }
  g.x[1] = in * g.group, g.y[1] = out * g.group;
  g.w.insert(g.w.begin(), {out * g.group, in});
  g.pads = begin;
  g.pads.insert(g.pads.end(), end.begin(), end.end());
  return g;
}

void set_window(Node& n, const Geometry& g) {
  n.attrs["strides"] = g.strides, n.attrs["pads"] = g.pads, n.attrs["dilations"] = g.dilations, n.attrs["group"] = g.group;
}

Layout layout(Choices& c) { return c.of({Layout::nhwc, Layout::nhwc, Layout::plain}); }

/// Slices of wider images, and memory that begins anywhere.
void move_memory(Choices& c, Case& k) {
  if (c.one_in(6)) Case::widen(k.trial.bound.outputs[0], c.between(0, 9));
  if (c.one_in(6)) Case::widen(k.trial.bound.inputs[0], c.between(0, 9));
}

/// The largest sum of magnitudes: the plain convolution of absolute values. `w`, `b`: its inputs.
std::function<double(std::span<const Tensor>)> sum_of_magnitudes(const Node& of, const char* op, std::vector<size_t> inputs) {
  Node plain = of;
  plain.domain = "", plain.op = op, plain.program.reset();
  plain.attrs.erase("segments");
  plain.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) plain.inputs.push_back(static_cast<ValueId>(i));
  plain.outputs = {static_cast<ValueId>(99)};
  return [plain, inputs](std::span<const Tensor> all) {
    std::vector<Tensor> sizes;
    for (const size_t i : inputs) {
      Tensor t = all[i].cast(DType::f64);
      for (double& v : t.span<double>()) v = std::abs(v);
      sizes.push_back(std::move(t));
    }
    const Tensor y = evaluate(plain, sizes)[0];
    double most = 1;
    for (double v : y.span<double>()) most = std::max(most, v);
    return most;
  };
}

constexpr double f_products = 4e6;

}  // namespace

Case conv(Choices& c) {
  Case k;
  k.values = c.one_in(3) ? Values::real : Values::whole;
  k.draw(c);
  const DType type = c.of({DType::f32, DType::f32, DType::bf16, DType::f16});
  const Geometry g = geometry(c, static_cast<size_t>(c.of({2, 2, 1, 3})), f_products);
  const bool fused = c.one_in(2);
  Node& n = k.trial.node;
  n.op = "Conv";
  if (fused) n.domain = smelt_domain;
  set_window(n, g);
  const Layout from = layout(c), to = c.one_in(5) ? layout(c) : from;
  k.add(k.numbers(type, g.x), false, from);
  k.add(k.numbers(type, g.w), !c.one_in(6));
  const bool biased = c.one_in(2);
  if (biased)
    k.add(k.numbers(fused ? DType::f32 : type, {g.w[0]}), !c.one_in(5));
  else if (fused)
    k.leave_out();
  if (fused) {
    Shape channel(g.y.size() - 1, 1);
    channel[0] = g.y[1];
    const Ending e = ending(c, k, type, channel, g.y);
    n.program = expr::Program::parse(e.program);
    add_operands(k, e, to);
  }
  if (k.values == Values::real) {
    k.units = 1, k.roundings = 64;
    k.magnitude = sum_of_magnitudes(n, "Conv", biased ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0, 1});
  }
  k.results();
  k.trial.bound.outputs[0].layout = to;
  move_memory(c, k);
  return k;
}

Case transposed_conv(Choices& c) {
  Case k;
  k.values = c.one_in(3) ? Values::real : Values::whole;
  k.draw(c);
  const DType type = c.of({DType::f32, DType::f32, DType::bf16, DType::f16});
  Geometry g = geometry(c, static_cast<size_t>(c.of({2, 2, 1, 3})), f_products);
  Node& n = k.trial.node;
  n.op = "ConvTranspose";
  set_window(n, g);
  if (c.one_in(3)) {
    std::vector<int64_t> more;
    for (size_t a = 0; a < g.strides.size(); ++a) more.push_back(c.between(0, std::max(g.strides[a], g.dilations[a]) - 1));
    n.attrs["output_padding"] = more;
  }
  // From the result's extents to the image's.
  const Layout from = layout(c), to = c.one_in(5) ? layout(c) : from;
  k.add(k.numbers(type, g.y), false, from);
  k.add(k.numbers(type, g.w), !c.one_in(6));
  const bool biased = c.one_in(2);
  if (biased) k.add(k.numbers(type, {g.x[1]}), !c.one_in(5));
  if (k.values == Values::real) {
    k.units = 1, k.roundings = 64;
    k.magnitude = sum_of_magnitudes(n, "ConvTranspose", biased ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0, 1});
  }
  k.results();
  k.trial.bound.outputs[0].layout = to;
  move_memory(c, k);
  return k;
}

namespace {

/// Weights of a symmetric or any zero point; of seven bits now and then, which every processor multiplies exactly.
Tensor byte_weights(Choices& c, const Case& k, DType type, const Shape& shape) {
  const uint32_t seed = k.seed + 5;
  return c.one_in(2) ? seven_bits(type, shape, seed) : k.numbers(type, shape)(seed);
}

Tensor zero_point(Choices& c, DType type, bool of_weights) {
  const int64_t middle = type == DType::u8 ? 128 : 0;
  const int64_t v = c.one_in(3)  ? (type == DType::u8 ? c.between(0, 255) : c.between(-128, 127))
                    : of_weights ? middle
                                 : middle + c.between(-9, 9);
  return Tensor::scalar<int64_t>(type == DType::u8 ? std::clamp<int64_t>(v, 0, 255) : std::clamp<int64_t>(v, -128, 127))
      .cast(type);
}

}  // namespace

Case byte_conv(Choices& c) {
  Case k;
  k.draw(c);
  const DType x = c.of({DType::u8, DType::i8}), w = c.of({DType::i8, DType::u8}), y = c.of({DType::u8, DType::i8});
  const Geometry g = geometry(c, static_cast<size_t>(c.of({2, 2, 2, 1})), 2 * f_products);
  const bool fused = c.one_in(2), by_channel = c.one_in(2);
  Node& n = k.trial.node;
  n.op = "QLinearConv";
  if (fused) n.domain = smelt_domain;
  set_window(n, g);
  const Layout from = layout(c), to = c.one_in(5) ? layout(c) : from;
  const double taps = static_cast<double>(elements(g.w) / g.w[0]);
  const double scale = 1 / std::sqrt(taps) / 50;
  const Tensor weights = byte_weights(c, k, w, g.w), w_zero = zero_point(c, w, true), x_zero = zero_point(c, x, false);
  const Tensor scales =
      by_channel ? random_tensor(DType::f32, {g.w[0]}, k.seed + 3, scale / 2, scale) : Tensor::scalar(static_cast<float>(scale));
  const Tensor zeros =
      by_channel ? Tensor::of<int64_t>({g.w[0]}, std::vector<int64_t>(static_cast<size_t>(g.w[0]), w_zero.to_ints()[0])).cast(w)
                 : w_zero;
  const bool biased = c.one_in(2);
  const Tensor bias = random_tensor(DType::i32, {g.w[0]}, k.seed + 4, -9000, 9000);
  k.add(k.numbers(x, g.x), false, from);
  if (fused) {
    k.add(weights);
    biased ? static_cast<void>(k.add(bias)) : k.leave_out();
    k.add(Tensor::scalar(0.02f));
    c.one_in(8) ? static_cast<void>(k.add([x_zero](uint32_t) { return x_zero; }, false)) : static_cast<void>(k.add(x_zero));
    k.add(scales), k.add(zeros);
    std::string text = "(in0:f32) { ";
    int at = 1;
    std::string last = "in0";
    if (c.one_in(2)) text += "%1 = relu(in0):f32; ", last = "%1", at = 2;
    const std::string type(name(y));
    text += quantized(last, "0.031", y == DType::u8 ? 88 : -3, at, type.c_str());
    n.program = expr::Program::parse(text + fmt::format("return %{} }}", at + 8));
  } else {
    k.add(Tensor::scalar(0.02f)), k.add(x_zero), k.add(weights), k.add(scales), k.add(zeros);
    k.add(Tensor::scalar(0.031f)), k.add(zero_point(c, y, false));
    if (biased) k.add(bias);
  }
  k.results();
  k.trial.bound.outputs[0].layout = to;
  move_memory(c, k);
  return k;
}

Case integer_conv(Choices& c) {
  Case k;
  k.draw(c);
  const DType x = c.of({DType::u8, DType::i8}), w = c.of({DType::i8, DType::u8});
  const Geometry g = geometry(c, static_cast<size_t>(c.of({2, 2, 1, 3})), f_products);
  k.trial.node.op = "ConvInteger";
  set_window(k.trial.node, g);
  k.add(k.numbers(x, g.x), false);
  c.one_in(4) ? k.add(k.numbers(w, g.w), false) : k.add(byte_weights(c, k, w, g.w));
  const Tensor zero = zero_point(c, x, false);
  if (c.one_in(2)) {
    c.one_in(3) ? k.add([zero](uint32_t) { return zero; }, false) : k.add(zero);
    if (c.one_in(2)) k.add(zero_point(c, w, true));
  }
  k.results();
  return k;
}

}  // namespace smelt::ops::scan
