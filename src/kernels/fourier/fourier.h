// The constants and the argument of fourier/fourier.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// What becomes of a line, as on the processor (ops/signal/simd/fourier.h).
enum class FourierForm : u32 {
  complex,    // complex or real to complex
  real,       // an even number of real values to complex ones, as half as many complex values
  half,       // the half spectrum of an even number of real values to those
  odd_half,   // the same of an odd number
};

struct FourierConfig {
  FourierForm form;
  bool inverse, windowed;
  bool across;                  // neighbouring lines lie side by side, not a line's elements
  u32 values, lines;            // complex values of a line; lines of a block
  u32 length;                   // of the signal
  u32 read, written;            // elements of a line that exist, and those that are stored
  u32 parts_in, parts_out;      // numbers to an element
};

/// T: the elements' type, C: the type that is computed in; void on the host.
template <class T, class C> struct FourierArgs {
  const T* x;
  const T* window;              // [read], where there is one
  T* y;
  const C* roots;               // [values] complex: e^(-2 pi i k / values)
  const C* half_turn;           // [values + 1] complex: e^(-2 pi i k / length), of the forms real and half
  i64 from_outer, from_inner;   // numbers from a line to the next, of two axes
  i64 to_outer, to_inner;
  i64 step_in, step_out;        // numbers from an element to the next
  double scale;                 // of what is read
  u32 count;                    // lines
  Divider inner;
};
static_assert(sizeof(FourierArgs<void, void>) == 112);

}  // namespace smelt::kernels
