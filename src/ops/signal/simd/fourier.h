// Fourier transforms of several lines at a time. A register holds the same element of `lanes` lines; a buffer is a list of such
// registers, complex values as two of them: the real parts, then the imaginary ones.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops {

using simd::FloatKind;

/// A pass of Stockham's algorithm over n = radix * groups * run complex values. Values n / radix apart become their transform, which
/// lies `run` values apart then: after the last pass all are in their order, without a permutation.
template <class T> struct FftPass {
  int64_t radix, groups, run;
  const T* twiddles;  // [groups][radix - 1] complex; null in the last pass, where all are 1
  const T* roots;     // [radix] complex, of a radix without a butterfly of its own
};

/// A transform of n complex values: passes, or Bluestein's convolution where a factor of n is too large for one.
template <class T> struct Fft {
  int64_t n = 1;
  const FftPass<T>* passes = nullptr;
  int64_t count = 0;
  const Fft* convolution = nullptr;  // its length, at least 2 n - 1, has small factors; null: passes
  const T* chirp = nullptr;          // [n] complex: e^(-i pi k² / n)
  const T* spectrum = nullptr;       // [convolution->n] complex: of the chirp's conjugate, over the length
};

/// The largest radix of a pass.
inline constexpr int64_t largest_radix = 31;

/// What is computed of each line, and of how many complex values.
enum class LineForm : uint8_t {
  complex,   // complex (or real) to complex: n = length
  real,      // an even number of real values to complex ones: n = length / 2
  half,      // the half spectrum of an even number of real values to those: n = length / 2
  odd_half,  // the same of an odd number: n = length
};

/// What a line is, and where its elements lie.
template <class T> struct LineTransform {
  Fft<T> fft;
  LineForm form = LineForm::complex;
  bool inverse = false;
  int64_t length = 1;                   // of the signal
  int64_t read = 0, written = 0;        // elements of a line that exist (zeros behind them), and those that are stored
  int64_t parts_in = 1, parts_out = 2;  // numbers to an element
  int64_t step_in = 1, step_out = 2;    // numbers from an element to the next
  FloatKind kind = FloatKind::f32;      // of both ends, where T is float
  T scale = 1;                          // of the elements read
  const T* window = nullptr;            // [read] instead of the scale
  const T* half_turn = nullptr;         // [length / 4 + 1] complex: e^(-2 pi i k / length), of the forms real and half
  int64_t registers = 0;                // of each of the two buffers
};

struct FourierSimd {
  int64_t floats, doubles;  // lines at a time: lanes of a register
  /// Transforms `count` lines, at most so many; `buffers`: twice t.registers of them.
  void (*transform_floats)(const LineTransform<float>& t, const void* const* from, void* const* to, int64_t count,
                           float* buffers);
  void (*transform_doubles)(const LineTransform<double>& t, const void* const* from, void* const* to, int64_t count,
                            double* buffers);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::FourierSimd& fourier_simd();
}
namespace smelt::avx2 {
const ops::FourierSimd& fourier_simd();
}
