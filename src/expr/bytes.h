// What programs do with values of 8 bits: rounding and saturating to them, taking zero points off, and what is made of one or two of
// them and rounded to 8 bits again.
#pragma once

#include <optional>

#include "expr/program.h"

namespace smelt::expr {

/// x and the zero point of a value that is rounded, perhaps after relu, moved by a whole zero point, and saturated to 8 bits.
struct Quantized {
  Ref x;
  bool relu;
  double zero;
};
std::optional<Quantized> quantized(const Program& p, const Instruction& cast);

/// A float that is a value of 8 bits less a whole number, as DequantizeLinear takes zero points off: exact, through i32 or not.
struct LessWhole {
  Ref byte;
  double less;
};
std::optional<LessWhole> less_whole(const Program& p, const Instruction& cast);

/// Another way to a number that is only rounded and saturated to 8 bits, made of one or two values of 8 bits less whole numbers. It
/// takes half of the instructions, rounds otherwise on the way, and gives the same 8 bits of all 256 values or 65,536 pairs: all have
/// been tried. (A quotient of a sum, for one, by two multiplications with what the scales are of the divisor.)
struct OfBytes {
  enum class Form {
    sum,        // fma(a, by_a, b · by_b)
    product,    // (a · b) · by_a
    scaled,     // a · by_a
    hard_swish  // (a · by_a) · saturated(fma(a, by_b, 0.5)), between 0 and 1
  } form;
  Ref a, b;  // of f32, values less whole numbers; b: -1 where there is one
  float by_a, by_b;
  bool relu;  // before it is rounded
};
/// Of value `last`, if there is such a way. It is the same of equal programs, and known from the second time on.
std::optional<OfBytes> of_bytes(const Program& p, Ref last);
/// What it computes, as a GPU does.
float value(const OfBytes& way, float a, float b);

}  // namespace smelt::expr
