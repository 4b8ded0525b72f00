// How ONNX's QuantizeLinear and DequantizeLinear are written as instructions, found again in a program.
#pragma once

#include <optional>
#include <vector>

#include "expr/program.h"

namespace smelt::expr {

/// cast(clip(add(round(div(x, scale)), zero), low, high)) of f32, to integers. -1 where nothing is divided, or added.
struct QuantizeParts {
  Ref x = -1, scale = -1, zero = -1, low = -1, high = -1;
  std::vector<Ref> inside;  // the instructions between x and the last one
};

/// What quantizes and ends with instruction `last`.
std::optional<QuantizeParts> quantize_parts(const Program& p, Ref last);

/// mul(cast(sub(cast(q):i32, zero)):f32, scale). -1 where nothing is taken off.
struct DequantizeParts {
  Ref q = -1, zero = -1, scale = -1;
  std::vector<Ref> inside;  // the instructions between q and the last one
};

/// What dequantizes integers and ends with instruction `last`.
std::optional<DequantizeParts> dequantize_parts(const Program& p, Ref last);

}  // namespace smelt::expr
