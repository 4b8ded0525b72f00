// Poolings, and resized images.
#include "ops/scan/window_cases.h"

#include <fmt/format.h>

#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops::scan {
namespace {

Layout layout(Choices& c, size_t rank) { return rank > 2 ? c.of({Layout::nhwc, Layout::plain}) : Layout::plain; }

/// An image of some ten thousand elements at most.
Shape image(Choices& c, size_t axes, int64_t most) {
  Shape s{c.between(1, 3), c.extent(130)};
  for (size_t a = 0; a < axes; ++a) s.push_back(c.extent(axes == 1 ? 300 : axes == 2 ? 40 : 12));
  while (elements(s) > most) {
    int64_t& largest = *std::ranges::max_element(s);
    largest = (largest + 1) / 2;
  }
  return s;
}

void move_memory(Choices& c, Case& k) {
  if (c.one_in(6)) Case::widen(k.trial.bound.outputs[0], c.between(0, 9));
  if (c.one_in(6)) Case::widen(k.trial.bound.inputs[0], c.between(0, 9));
}

}  // namespace

Case pool(Choices& c) {
  Case k;
  k.values = c.one_in(2) ? Values::real : Values::whole;
  k.draw(c);
  const std::string op = c.of({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LpPool", "GlobalLpPool"});
  const bool max = op.find("Max") != std::string::npos, global = op.starts_with("Global");
  DType type = c.of({DType::f32, DType::f32, DType::bf16, DType::f16, DType::f64, DType::u8, DType::i8});
  if (!max && bits(type) == 8) type = DType::f32;
  const size_t axes = static_cast<size_t>(c.of({2, 2, 1, 3}));
  const Shape x = image(c, axes, 30000);
  Node& n = k.trial.node;
  n.op = op;
  if (!global) {
    std::vector<int64_t> kernel, strides, begin, end, dilations;
    for (size_t a = 0; a < axes; ++a) {
      const int64_t widest = c.one_in(6) ? x[a + 2] : std::min<int64_t>(x[a + 2], 5);
      dilations.push_back(c.one_in(5) && widest > 2 ? 2 : 1);
      kernel.push_back(std::max<int64_t>(1, c.between(1, widest) / dilations.back()));
      strides.push_back(c.between(1, 4));
      begin.push_back(c.one_in(2) ? c.between(0, kernel.back() - 1) : 0);
      end.push_back(c.one_in(2) ? c.between(0, kernel.back() - 1) : begin.back());
    }
    n.attrs["kernel_shape"] = kernel, n.attrs["strides"] = strides, n.attrs["dilations"] = dilations;
    begin.insert(begin.end(), end.begin(), end.end());
    n.attrs["pads"] = begin;
    if (c.one_in(3)) n.attrs["ceil_mode"] = int64_t{1};
    if (op == "AveragePool" && c.one_in(2)) n.attrs["count_include_pad"] = int64_t{1};
  }
  if (op.find("Lp") != std::string::npos && c.one_in(2)) n.attrs["p"] = c.of<int64_t>({1, 3});
  const Layout from = layout(c, x.size());
  k.add(k.numbers(type, x), false, from);
  if (op == "MaxPool" && c.one_in(3)) n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  if (!max) k.units = 1, k.roundings = 32;
  k.results();
  if (n.outputs.size() == 1) k.trial.bound.outputs[0].layout = c.one_in(5) ? layout(c, x.size()) : from;
  move_memory(c, k);
  return k;
}

Case byte_mean(Choices& c) {
  Case k;
  k.seed = static_cast<uint32_t>(c.below(1000));
  k.threads = c.of({1, 2, 3});
  const DType type = c.of({DType::u8, DType::i8});
  const Shape x = image(c, 2, 30000);
  Node& n = k.trial.node;
  n.domain = smelt_domain, n.op = "Reduce";
  n.attrs["kind"] = std::string("mean");
  n.attrs["axes"] = std::vector<int64_t>{2, 3};
  n.attrs["keepdims"] = int64_t{1}, n.attrs["inputs_before"] = int64_t{1};
  n.program = expr::Program::parse(fmt::format("(in0:{}) {{ {}return %6 }}", name(type), dequantized("in0", "0.037", 9, 1)));
  k.add(k.numbers(type, x), false, layout(c, 4));
  k.units = 2, k.roundings = 64;
  k.magnitude = [](std::span<const Tensor>) { return 0.037 * 255; };
  k.results();
  move_memory(c, k);
  return k;
}

Case resize(Choices& c) {
  Case k;
  k.values = c.one_in(2) ? Values::real : Values::whole;
  k.draw(c);
  const DType type = c.of({DType::f32, DType::f32, DType::f16, DType::u8, DType::i8, DType::bf16});
  const size_t axes = static_cast<size_t>(c.of({2, 2, 1, 3}));
  const Shape x = image(c, axes, 6000);
  Node& n = k.trial.node;
  n.op = "Resize";
  const std::string mode = c.of({"nearest", "linear", "cubic"});
  n.attrs["mode"] = mode;
  n.attrs["coordinate_transformation_mode"] =
      std::string(c.of({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"}));
  if (mode == "nearest")
    n.attrs["nearest_mode"] = std::string(c.of({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  else if (c.one_in(4))
    n.attrs["antialias"] = int64_t{1};
  if (mode == "cubic" && c.one_in(3)) n.attrs["exclude_outside"] = int64_t{1};
  const Layout from = layout(c, x.size());
  k.add(k.numbers(type, x), false, from);
  k.leave_out();
  std::vector<float> scales{1, 1};
  std::vector<int64_t> sizes{x[0], x[1]};
  for (size_t a = 0; a < axes; ++a) {
    const int64_t kind = c.below(4);
    sizes.push_back(kind == 0 ? 2 * x[a + 2] : kind == 1 ? x[a + 2] : c.between(1, 2 * x[a + 2] + 3));
    scales.push_back(kind < 2 ? static_cast<float>(2 - kind) : c.of({0.5f, 1.5f, 3.0f, 0.77f}));
    if (static_cast<float>(x[a + 2]) * scales.back() < 1) scales.back() = 1;
  }
  const int64_t rank = static_cast<int64_t>(x.size());
  if (c.one_in(2)) {
    k.leave_out();
    k.add(Tensor::of<int64_t>({rank}, sizes));
  } else {
    k.add(Tensor::of<float>({rank}, scales));
  }
  if (mode != "nearest") k.units = 1, k.roundings = 64, k.steps = 1;
  k.results();
  k.trial.bound.outputs[0].layout = c.one_in(5) ? layout(c, x.size()) : from;
  move_memory(c, k);
  return k;
}

}  // namespace smelt::ops::scan
