// What rows of sums add on their way to bytes, and the loop for each, for *.simd.cpp sources.
#pragma once

#include "ops/cpu/integer/simd/rows.h"

namespace smelt::avx2 {

/// u8_alone, i8_alone: nothing is rounded before it is added.
enum class Residual { none, u8, i8, u8_alone, i8_alone };
constexpr bool is_signed(Residual r) { return r == Residual::i8 || r == Residual::i8_alone; }
constexpr bool rounds(Residual r) { return r < Residual::u8_alone; }

template <class Loops, bool adds, bool starts>
void requantize_with(const ops::integer::Requantization& r, const ops::integer::SumRows& s) {
  if (!r.adds_residual) return Loops::template rows<Residual::none, adds, starts>(r, s);
  if (r.rounds_before && r.residual_signed) return Loops::template rows<Residual::i8, adds, starts>(r, s);
  if (r.rounds_before) return Loops::template rows<Residual::u8, adds, starts>(r, s);
  if (r.residual_signed) return Loops::template rows<Residual::i8_alone, adds, starts>(r, s);
  Loops::template rows<Residual::u8_alone, adds, starts>(r, s);
}

/// All but the table, by Loops::rows<residual, has addends, has a start>.
template <class Loops> void requantize_by(const ops::integer::Requantization& r, const ops::integer::SumRows& s) {
  constexpr void (*forms[2][2])(const ops::integer::Requantization&, const ops::integer::SumRows&) = {
      {requantize_with<Loops, false, false>, requantize_with<Loops, false, true>},
      {requantize_with<Loops, true, false>, requantize_with<Loops, true, true>}};
  forms[r.addends != nullptr][s.start != nullptr](r, s);
}

/// The same by the narrower registers, whatever the processor has.
void requantize_narrow(const ops::integer::Requantization& r, const ops::integer::SumRows& s);

/// The loops of 64 elements; null where the processor has no AVX-512.
struct WideRows {
  void (*requantize)(const ops::integer::Requantization& r, const ops::integer::SumRows& s);  // all but the table
  void (*dequantize_u8)(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale);
  void (*dequantize_i8)(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale);
};
const WideRows* wide_rows();

}  // namespace smelt::avx2
