// A convolution to build a test's graph on.
#pragma once

#include "support/builder.h"

namespace smelt::fuse {

inline const SymShape image{1, 4, 8, 8};

inline std::map<std::string, Attribute> same_size() { return {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}; }

/// x → Conv "conv" (4 → 4 channels, 3 x 3, same size)
struct ConvBuilder : Builder {
  ValueId x, conv;
  explicit ConvBuilder(DType type = DType::f32, bool bias = true) {
    x = input("x", image, type);
    std::vector<ValueId> inputs{x, weights("w", {4, 4, 3, 3}, type)};
    if (bias) inputs.push_back(weights("b", {4}, type));
    conv = node("conv", "Conv", inputs, image, type, same_size());
  }
};

}  // namespace smelt::fuse
