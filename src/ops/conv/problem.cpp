#include "ops/conv/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/conv/conv.h"
#include "ops/conv/transposed.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

/// "3" when all are equal, else "3x5".
std::string compact(const Shape& s) {
  const bool same = std::ranges::all_of(s, [&](int64_t v) { return v == s[0]; });
  return same && !s.empty() ? std::to_string(s[0]) : fmt::format("{}", fmt::join(s, "x"));
}

/// An image that is little more than padding is read where it lies: a copy could be larger than any memory.
bool is_mostly_padding(const Problem& p) {
  double image = 1, padded = 1;
  for (size_t a = 0; a < 2; ++a) {
    const auto extent = static_cast<double>(p.x[0].shape[a + 2]);
    image *= extent;
    padded *= extent + static_cast<double>(p.pad_begin[a]) + static_cast<double>(p.pad_end[a]);
  }
  return padded > 16 * image + 65536;
}

}  // namespace

int64_t Problem::channels() const {
  return std::accumulate(x.begin(), x.end(), int64_t{0}, [](int64_t sum, const Input& i) { return sum + i.shape[1]; });
}

double Problem::flops() const {
  const Shape& grid = transposed ? x[0].shape : y;
  return 2.0 * static_cast<double>(elements(w)) * static_cast<double>(elements(grid)) / static_cast<double>(grid[1]);
}

double Problem::inside() const {
  double share = 1;
  for (size_t a = 0; a < spatial() && !transposed; ++a) {
    const int64_t extent = x[0].shape[a + 2] * x[0].upsample, taps = w[a + 2], places = y[a + 2];
    int64_t count = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      // Of the places i those with 0 <= i · stride + shift < extent.
      const int64_t shift = tap * dilation[a] - pad_begin[a];
      const int64_t first = shift >= 0 ? 0 : (-shift + stride[a] - 1) / stride[a];
      const int64_t end = shift >= extent ? 0 : (extent - 1 - shift) / stride[a] + 1;
      count += std::max<int64_t>(std::min(end, places) - std::min(first, places), 0);
    }
    if (taps * places > 0) share *= static_cast<double>(count) / static_cast<double>(taps * places);
  }
  return share;
}

std::string print(const Problem& p) {
  Key key(p.transposed ? "convt" : "conv");
  key.field(p.input).to(p.output);
  for (size_t i = 0; i < p.x.size(); ++i)
    key.option(i == 0 ? ":" : "+", p.x[i].shape).option("u", p.x[i].upsample, int64_t{1}).option("v", p.x[i].strides, {});
  key.option(",", p.w).field("s").option("", compact(p.stride)).option("p", compact(p.pad_begin));
  key.option("-", compact(p.pad_end), compact(p.pad_begin)).option("d", compact(p.dilation), std::string("1"));
  key.option("g", p.group, int64_t{1});
  if (p.transposed) key.option("o", spatial_of(p.y));
  if (p.blocked) return key.field("nchw32").field(p.epilogue).text();
  key.field(p.from);
  if (p.to != p.from || !p.y_strides.empty()) key.to(p.to).option("v", p.y_strides, {});
  return key.field(p.epilogue).text();
}

Shape gaps(const BoundTensor& t) { return is_dense(t) ? Shape{} : t.strides; }

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
    p.x.push_back({b.inputs[i].shape, i < upsample.size() ? upsample[i] : 1, gaps(b.inputs[i])});
  }
  p.w = b.inputs[a.w].shape;
  p.y = b.outputs[0].shape;
  p.y_strides = gaps(b.outputs[0]);
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

bool copies_with_padding(const Problem& p, int64_t few_channels) {
  return !p.transposed && p.spatial() == 2 && p.group == 1 && p.channels() <= few_channels && p.x.size() == 1 &&
         p.x[0].upsample == 1 && p.dilation[1] == 1 && (p.w[2] > 1 || p.w[3] > 1) && !is_mostly_padding(p);
}

bool windows_lie_side_by_side(const Problem& p) {
  for (size_t a = 0; a < p.spatial(); ++a) {
    if (p.stride[a] != p.w[a + 2] || p.pad_begin[a] != 0 || p.pad_end[a] != 0 || p.dilation[a] != 1 ||
        p.y[a + 2] != p.x[0].shape[a + 2] * p.stride[a])
      return false;
  }
  return p.transposed;
}

}  // namespace smelt::ops::conv
