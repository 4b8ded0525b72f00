// A network of images of one, two or three spatial axes, as exporters of audio, pictures and video write them.
#pragma once

#include "support/graphs.h"

namespace smelt::test {

inline constexpr int64_t image_channels = 16;

/// [2, 16, 12], [2, 16, 12, 10] or [2, 16, 12, 10, 8], of the network's input.
inline Shape image_shape(size_t axes) {
  Shape shape{2, image_channels, 12, 10, 8};
  shape.resize(2 + axes);
  return shape;
}

/// Convolutions around a pooling, a residual addition and a concatenation along the channels.
inline Graph image_network(size_t axes, DType type) {
  Builder b;
  unsigned constants = 0;
  const auto weights = [&](const Shape& s, float scale) {
    Tensor t = random_tensor(s, ++constants);
    for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] *= scale;
    return b.constant("c" + std::to_string(constants), t.cast(type));
  };
  const auto all = [&](int64_t n) { return std::vector<int64_t>(axes, n); };
  const auto conv = [&](const std::string& name, ValueId x, int64_t from, int64_t window, const SymShape& to) {
    Shape w{image_channels, from};
    w.insert(w.end(), axes, window);
    return b.node(name, "Conv", {x, weights(w, 0.2f), weights({image_channels}, 1)}, to, type,
                  {{"pads", std::vector<int64_t>(2 * axes, window / 2)}});
  };
  Shape half = image_shape(axes), joined;
  for (size_t i = 0; i < axes; ++i) half[2 + i] /= 2;
  joined = half, joined[1] *= 2;
  const SymShape whole = to_sym(image_shape(axes)), small = to_sym(half);
  ValueId v = conv("first", b.input("x", whole, type), image_channels, 3, whole);
  v = b.node("active", "Relu", {v}, whole, type);
  const ValueId pooled = b.node("pooled", "MaxPool", {v}, small, type, {{"kernel_shape", all(2)}, {"strides", all(2)}});
  v = conv("second", pooled, image_channels, 3, small);
  v = b.node("residual", "Add", {v, pooled}, small, type);
  v = b.node("both", "Concat", {v, pooled}, to_sym(joined), type, {{"axis", int64_t{1}}});
  b.output(conv("last", v, 2 * image_channels, 1, small));
  return std::move(b.g);
}

}  // namespace smelt::test
