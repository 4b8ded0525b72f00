// Programs over quantized tensors: what quantizes, and what dequantizes.
#pragma once

#include <optional>

#include "expr/program.h"
#include "ops/core/quantized_program.h"

namespace smelt::ops::integer {

inline const expr::Instruction& at(const expr::Program& p, expr::Ref r) { return p.code()[static_cast<size_t>(r)]; }

/// cast(clip(add(round(div(x, divisor)), zero), low, high)) with constants, to 8 bits. low and high: the type's own bounds or
/// narrower ones, less the zero point.
struct QuantizeStep {
  expr::Ref x = -1;
  float divisor = 1;
  int32_t zero = 0;
  float low = 0, high = 0;
};
std::optional<QuantizeStep> as_quantize_step(const expr::Program& p, expr::Ref r);

/// mul(cast(sub(cast(q):i32, zero)):f32, scale) with constants, q of 8 bits.
struct DequantizeStep {
  expr::Ref q = -1;
  int32_t zero = 0;
  float scale = 1;
};
std::optional<DequantizeStep> as_dequantize_step(const expr::Program& p, expr::Ref r);

}  // namespace smelt::ops::integer
