#include "fuse/rewrites/quantized/quantized.h"

#include <algorithm>
#include <cstring>

namespace smelt::fuse {

int64_t size_of(const Graph& g, ValueId v) {
  if (v == ValueId::none) return -1;
  const auto& shape = g.value(v).shape;
  return shape && is_static(*shape) ? elements(to_shape(*shape)) : -1;
}

Result<Dequantized> dequantized(const Graph& g, ValueId v, int64_t channel_axis, EightBits bits) {
  NodeId n;
  if (!made_by(g, v, "DequantizeLinear", &n))
    return refuse(Reason::wrong_producer, g.value(v).producer, "{} is not dequantized", g.value(v).name);
  const Node& node = g.node(n);
  const Dequantized d{n, node.in(0), node.in(1), node.in(2)};
  const DType type = g.value(d.x).type;
  const bool fits = bits == EightBits::floats ? type == DType::f8e4m3fn : type == DType::u8 || type == DType::i8;
  if (!fits) return refuse(Reason::wrong_type, n, "{} is {}", g.value(d.x).name, name(type));
  if (node.get_int("block_size", 0) != 0)
    return refuse(Reason::wrong_attribute, n, "{} has a scale for each block", describe(g, n));
  const int64_t scales = size_of(g, d.scale), zeros = d.zero_point == ValueId::none ? scales : size_of(g, d.zero_point);
  if (scales < 0 || zeros < 0) return refuse(Reason::unknown_shape, n, "the number of scales of {} is not known", describe(g, n));
  if (zeros != scales) return refuse(Reason::wrong_shape, n, "{} scales, {} zero points", scales, zeros);
  if (scales == 1) return d;
  if (channel_axis < 0) return refuse(Reason::wrong_shape, n, "{} has {} scales, expected one", describe(g, n), scales);
  const int r = rank(g, d.x);
  if (r <= 0 || normalize_axis(node.get_int("axis", 1), r) != channel_axis)
    return refuse(Reason::wrong_axis, n, "{} scales along axis {}, expected {}", describe(g, n), node.get_int("axis", 1),
                  channel_axis);
  return d;
}

std::optional<Refusal> several_numbers(const Graph& g, NodeId n, std::span<const size_t> places) {
  for (const size_t i : places)
    if (const int64_t size = size_of(g, g.node(n).in(i)); size != 1)
      return refuse(Reason::wrong_shape, n, "input {} of {} has {} elements, expected one", i, describe(g, n), size);
  return std::nullopt;
}

ValueId needed_zero_point(const Graph& g, ValueId zero_point) {
  if (zero_point == ValueId::none || !g.value(zero_point).constant.valid()) return zero_point;
  const auto values = g.value(zero_point).constant.to_ints();
  return std::all_of(values.begin(), values.end(), [](int64_t z) { return z == 0; }) ? ValueId::none : zero_point;
}

bool same_constant(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a == ValueId::none || b == ValueId::none) return false;
  const Tensor &s = g.value(a).constant, &t = g.value(b).constant;
  return s.valid() && t.valid() && s.type() == t.type() && s.size() == t.size() && s.type() != DType::string &&
         std::memcmp(s.raw(), t.raw(), static_cast<size_t>(s.nbytes())) == 0;
}

}  // namespace smelt::fuse
