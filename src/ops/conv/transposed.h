// Transposed convolution: every input element adds the kernel, times itself, to the output around its place. It is the
// adjoint of a convolution whose input grid is this operator's output.
#pragma once

#include "ops/core/window.h"

namespace smelt::ops {

/// x [n, c, in…] with w [c, m / group, kernel…] gives y [n, m, out…].
struct TransposedConv {
  int64_t n = 0, c = 0, m = 0, group = 1;
  Shape in, out;
  Window window;  // slides over `out`; its places are `in`
};

/// Checks the operands and resolves output_shape, output_padding, pads and auto_pad as ConvTranspose defines them.
TransposedConv transposed_conv(const Node& node, const Shape& x, const Shape& w);

/// Output plane (n, m), accumulated in double. `bias` may be null. T is float or double.
template <class T>
void transposed_plane(const TransposedConv& t, int64_t n, int64_t m, const T* x, const T* w, const T* bias, T* y);

extern template void transposed_plane<float>(const TransposedConv&, int64_t, int64_t, const float*, const float*, const float*,
                                             float*);
extern template void transposed_plane<double>(const TransposedConv&, int64_t, int64_t, const double*, const double*,
                                              const double*, double*);

}  // namespace smelt::ops
