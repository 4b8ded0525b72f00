// Windows over one plane, folded by the maximum or the sum: the inner loops of plain pooling. For *.simd.cpp sources and ops/pool/.
#pragma once

#include <cstdint>

namespace smelt::ops::pool {

/// Entries of pairs: along rows, along a row. All in elements.
struct PlaneWindows {
  int64_t rows, width, pitch;                           // of the plane: rows `pitch` apart
  int64_t places[2], to_pitch;                          // of the result
  int64_t kernel[2], stride[2], dilation[2], begin[2];  // place i's tap k lies at i · stride + k · dilation - begin
  int64_t line;  // a row with its padding: begin + width at least, and what the windows reach
  int64_t tall;  // padded rows, where windows along rows are doubled; 0: each place folds the rows below it
  bool wide;     // windows along a row are doubled
};

/// y = the folds of x's windows; what lies outside of the plane takes no part. `scratch`: scratch_of(p).
template <class T> using PlaneFold = void (*)(const PlaneWindows& p, const T* x, T* y, T* scratch);

struct PlaneSimd {
  // The maximum: NaN wins.
  PlaneFold<float> max_f32;
  PlaneFold<double> max_f64;
  PlaneFold<int8_t> max_i8;
  PlaneFold<uint8_t> max_u8;
  PlaneFold<int16_t> max_keys;  // of 16-bit floats
  PlaneFold<float> sum_f32;
  PlaneFold<double> sum_f64;
  /// Integers in the order of 16-bit floats whose infinity is `infinity`, every NaN above all of them; and back, in place.
  void (*keys)(const uint16_t* x, int16_t* to, int64_t n, uint16_t infinity);
  void (*values)(int16_t* y, int64_t n, uint16_t infinity);
  /// y[i] *= factors[i].
  void (*scale_f32)(float* y, const float* factors, int64_t n);
  void (*scale_f64)(double* y, const double* factors, int64_t n);
};

}  // namespace smelt::ops::pool

namespace smelt::base {
const ops::pool::PlaneSimd& pool_planes();
}
namespace smelt::avx2 {
const ops::pool::PlaneSimd& pool_planes();
}
namespace smelt::avx512 {
const ops::pool::PlaneSimd& pool_planes();
}
