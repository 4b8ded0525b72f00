#include "ops/conv/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/conv/conv.h"
#include "ops/conv/transposed.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

/// "3" when all are equal, else "3x5".
std::string compact(const Shape& s) {
  const bool same = std::ranges::all_of(s, [&](int64_t v) { return v == s[0]; });
  return same && !s.empty() ? std::to_string(s[0]) : fmt::format("{}", fmt::join(s, "x"));
}

}  // namespace

int64_t Problem::channels() const {
  return std::accumulate(x.begin(), x.end(), int64_t{0}, [](int64_t sum, const Input& i) { return sum + i.shape[1]; });
}

double Problem::flops() const {
  const Shape& grid = transposed ? x[0].shape : y;
  return 2.0 * static_cast<double>(elements(w)) * static_cast<double>(elements(grid)) / static_cast<double>(grid[1]);
}

std::string print(const Problem& p) {
  std::string text = fmt::format("{}:{}>{}:", p.transposed ? "convt" : "conv", smelt::name(p.input), smelt::name(p.output));
  for (size_t i = 0; i < p.x.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "+", to_text(p.x[i].shape));
    if (p.x[i].upsample != 1) text += fmt::format("u{}", p.x[i].upsample);
    if (p.x[i].strided) text += "v";
  }
  text += fmt::format(",{}:s{}p{}", to_text(p.w), compact(p.stride), compact(p.pad_begin));
  if (p.pad_begin != p.pad_end) text += "-" + compact(p.pad_end);
  if (std::ranges::any_of(p.dilation, [](int64_t d) { return d != 1; })) text += "d" + compact(p.dilation);
  if (p.group != 1) text += fmt::format("g{}", p.group);
  if (p.transposed) text += "o" + to_text(Shape(p.y.begin() + 2, p.y.end()));
  text += fmt::format(":{}", name(p.from));
  if (p.to != p.from || p.y_strided) text += fmt::format(">{}{}", name(p.to), p.y_strided ? "v" : "");
  return text + ":" + p.epilogue;
}

Arguments arguments(const Node& node) {
  Arguments a;
  if (node.domain == smelt_domain) a.segments = static_cast<size_t>(node.get_int("segments", 1));
  a.w = a.segments;
  a.b = a.segments + 1;
  a.operands = a.segments + 2;
  return a;
}

Problem problem(const BoundNode& b) {
  const Node& node = *b.node;
  const Arguments a = arguments(node);
  Problem p;
  p.transposed = node.op == "ConvTranspose";
  p.input = b.inputs[0].type;
  p.output = b.outputs[0].type;
  const std::vector<int64_t> upsample = node.get_ints("upsample");
  for (size_t i = 0; i < a.segments; ++i) {
    p.x.push_back({b.inputs[i].shape, i < upsample.size() ? upsample[i] : 1, !is_dense(b.inputs[i])});
  }
  p.w = b.inputs[a.w].shape;
  p.y = b.outputs[0].shape;
  p.y_strided = !is_dense(b.outputs[0]);
  p.group = node.get_int("group", 1);
  p.from = b.inputs[0].layout;
  p.to = b.outputs[0].layout;
  Window w;
  if (p.transposed) {
    w = transposed_conv(node, p.x[0].shape, p.w).window;
  } else {
    Shape grid = spatial_of(p.x[0].shape);
    for (int64_t& extent : grid) extent *= p.x[0].upsample;
    w = window_of(node, spatial_of(p.w), grid);
  }
  p.stride = w.stride;
  p.dilation = w.dilation;
  p.pad_begin = w.pad_begin;
  p.pad_end = w.pad_end;
  return p;
}

bool copies_with_padding(const Problem& p) {
  constexpr int64_t few_channels = 4;
  return !p.transposed && p.spatial() == 2 && p.group == 1 && p.channels() <= few_channels && p.x.size() == 1 &&
         p.x[0].upsample == 1 && p.dilation[1] == 1 && (p.w[2] > 1 || p.w[3] > 1);
}

}  // namespace smelt::ops::conv
