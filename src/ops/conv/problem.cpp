#include "ops/conv/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
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

std::vector<std::string_view> separate(std::string_view text, char by, size_t at_most = SIZE_MAX) {
  std::vector<std::string_view> fields;
  while (fields.size() + 1 < at_most) {
    const size_t end = text.find(by);
    if (end == std::string_view::npos) break;
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  fields.push_back(text);
  return fields;
}

int64_t number(std::string_view text, std::string_view field) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size())
    fail("convolution problem: '{}' in '{}' is not a number", text, field);
  return v;
}

Shape shape(std::string_view text) {
  Shape s;
  for (std::string_view v : separate(text, 'x')) s.push_back(number(v, text));
  return s;
}

/// "3" or "3x5", as many as there are spatial axes.
Shape expand(std::string_view text, size_t axes) {
  Shape s = shape(text);
  if (s.size() == 1) s.resize(axes, s[0]);
  if (s.size() != axes) fail("convolution problem: '{}' has {} numbers, expected 1 or {}", text, s.size(), axes);
  return s;
}

Layout layout(std::string_view text) {
  for (Layout l : {Layout::plain, Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    if (text == name(l)) return l;
  }
  fail("convolution problem: no layout '{}'", text);
}

DType element_type(std::string_view text) {
  const auto t = parse_dtype(text);
  if (!t) fail("convolution problem: no element type '{}'", text);
  return *t;
}

/// The text from its first character up to the next letter of "spdgo", removed from `text`.
std::string_view item(std::string_view& text) {
  const size_t end = std::min(text.find_first_of("spdgo", 1), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(end);
  return head;
}

/// Output extents of a convolution.
Shape places(const Problem& p) {
  Shape y = {p.x[0].shape[0], p.w[0]};
  for (size_t a = 0; a < p.spatial(); ++a) {
    const int64_t in = p.x[0].shape[a + 2] * p.x[0].upsample, taps = (p.w[a + 2] - 1) * p.dilation[a] + 1;
    y.push_back((in + p.pad_begin[a] + p.pad_end[a] - taps) / p.stride[a] + 1);
  }
  return y;
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

Problem parse(std::string_view text) {
  const auto fields = separate(text, ':', 6);
  if (fields.size() != 6 || (fields[0] != "conv" && fields[0] != "convt")) {
    fail("convolution problem '{}': expected conv:types:shapes:geometry:layout:epilogue", text);
  }
  Problem p;
  p.transposed = fields[0] == "convt";
  const auto types = separate(fields[1], '>');
  p.input = element_type(types[0]);
  p.output = element_type(types.back());
  const auto shapes = separate(fields[2], ',');
  if (shapes.size() != 2)
    fail("convolution problem '{}': expected the inputs' shapes and the weight's, separated by a comma", text);
  for (std::string_view x : separate(shapes[0], '+')) {
    Input in;
    in.strided = x.ends_with('v');
    if (in.strided) x.remove_suffix(1);
    const auto up = separate(x, 'u');
    in.shape = shape(up[0]);
    if (up.size() == 2) in.upsample = number(up[1], x);
    p.x.push_back(std::move(in));
  }
  p.w = shape(shapes[1]);
  if (p.w.size() < 3 || p.x[0].shape.size() != p.w.size()) fail("convolution problem '{}': ranks differ or are below 3", text);
  const size_t axes = p.spatial();
  p.stride = p.dilation = Shape(axes, 1);
  p.pad_begin = p.pad_end = Shape(axes, 0);
  Shape out;
  for (std::string_view geometry = fields[3]; !geometry.empty();) {
    const std::string_view one = item(geometry), value = one.substr(1);
    switch (one[0]) {
      case 's': p.stride = expand(value, axes); break;
      case 'd': p.dilation = expand(value, axes); break;
      case 'g': p.group = number(value, one); break;
      case 'o': out = expand(value, axes); break;
      case 'p': {
        const auto ends = separate(value, '-');
        p.pad_begin = expand(ends[0], axes);
        p.pad_end = expand(ends.back(), axes);
        break;
      }
      default: fail("convolution problem '{}': geometry '{}'", text, one);
    }
  }
  auto layouts = separate(fields[4], '>');
  p.from = layout(layouts[0]);
  p.y_strided = layouts.size() == 2 && layouts[1].ends_with('v');
  if (p.y_strided) layouts[1].remove_suffix(1);
  p.to = layout(layouts.back());
  p.epilogue = std::string(fields[5]);
  if (p.transposed) {
    p.y = {p.x[0].shape[0], p.w[1] * p.group};
    p.y.insert(p.y.end(), out.begin(), out.end());
  } else {
    p.y = places(p);
  }
  return p;
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
