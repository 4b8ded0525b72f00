// Where an ai.smelt Conv or QLinearConv keeps its inputs, and the attributes it shares with ONNX's Conv.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace smelt::ops {

/// Channels [first, first + count) of weights [M, C, …].
Tensor channels_of(const Tensor& w, int64_t first, int64_t count);

struct ConvSegments {
  explicit ConvSegments(const Node& n) : count(static_cast<size_t>(n.get_int("segments", 1))), upsample(n.get_ints("upsample")) {
    if (count < 1 || count > n.inputs.size())
      fail("segments = {}, but there are {} inputs", n.get_int("segments", 1), n.inputs.size());
    if (upsample.empty()) upsample.assign(count, 1);
    if (upsample.size() != count) fail("upsample has {} factors, expected {}, one a segment", upsample.size(), count);
    for (int64_t u : upsample)
      if (u < 1 || u > largest_factor) fail("upsample has a factor {}, expected 1 to {}", u, largest_factor);
    for (const char* key : {"strides", "pads", "dilations", "group", "kernel_shape", "auto_pad"})
      if (n.has(key)) conv_attributes.emplace(key, n.attrs.at(key));
  }
  static constexpr int64_t largest_factor = 1 << 20;
  size_t weight() const { return count; }  // of QLinearConv too, whose scales and zero points follow its bias
  size_t bias() const { return count + 1; }
  size_t operands() const { return count + 2; }
  struct Quantized {
    size_t x_scale, x_zero, w_scale, w_zero, operands;
  };
  Quantized quantized() const { return {count + 2, count + 3, count + 4, count + 5, count + 6}; }

  size_t count;                   // segments
  std::vector<int64_t> upsample;  // one factor a segment
  std::map<std::string, Attribute> conv_attributes;
};

}  // namespace smelt::ops
