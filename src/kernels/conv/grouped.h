// The constants and the argument of conv/grouped.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct GroupedConfig {
  bool transposed;
  int channels, outputs;        // of a group
  int span;                     // groups of a thread; 1 where it has a part of one
  int vec;                      // outputs of a thread: span * outputs, or a divisor of outputs
  int pixels;                   // of a thread; transposed: 1
  int chunk;                    // terms of a group that are loaded at once; where span > 1, all
  int load;                     // terms of x to an access; elements that lie apart are 1, bytes that do, and make words, 0
  int weights;                  // of w to an access, which divide vec
  int taps_w, unroll;           // along W; so many taps at once
  int threads, lanes;           // of a block; of those, side by side
  bool channels_last;           // lanes along the channels; else along the pixels
  bool words;                   // terms are words of four channels' bytes
};

/// The taps that an output meets along an axis, and the pixels under them: tap, tap + tap_step… and at, at + pixel_step….
///
///   plain        every tap k, at o * stride + k * dilation - pad
///   transposed   those k for which stride divides o + pad - k * dilation, at the quotient. With c = gcd(stride, dilation) they lie
///                stride / c apart; the first is (o + pad) / c * inverse modulo stride / c, inverse that of dilation / c.
struct GroupedAxis {
  i32 in, taps;                 // pixels; along W kernels know the taps
  i32 stride, pad, dilation;
  i32 tap_step, pixel_step;
  i32 common, inverse;          // transposed: c, and the inverse
};

struct GroupedBegin {
  i32 tap, at;                  // the first; tap is beyond all where the output meets none
};
template <bool Transposed> SMELT_SHARED constexpr GroupedBegin grouped_begin(const GroupedAxis& a, i32 o) {
  if constexpr (!Transposed) return {0, o * a.stride - a.pad};
  const i32 place = o + a.pad, part = place / a.common;
  if (part * a.common != place) return {a.taps, 0};
  const i32 tap = static_cast<i32>(static_cast<i64>(part % a.tap_step) * a.inverse % a.tap_step);
  return {tap, (place - tap * a.dilation) / a.stride};
}

/// X, W: the elements' types; void on the host.
template <class X, class W> struct GroupedArgs {
  const X* x;                   // [N, C, D, H, W]
  const W* w;                   // [KD, KH, KW, terms of a group, M]
  u32 rows;                     // N * D * H * W of the output
  u32 columns;                  // M / vec
  Divider extents[3];           // of the output: W, H, D
  Divider parts;                // threads that share a group's outputs
  i32 from[5];                  // strides of x along N, C, D, H, W
  i32 zero;                     // of x's integers
  GroupedAxis axes[3];          // D, H, W
  i32 unused;
};
static_assert(sizeof(GroupedArgs<void, void>) == 24 + 4 * sizeof(Divider) + 28 + 3 * sizeof(GroupedAxis));

}  // namespace smelt::kernels
