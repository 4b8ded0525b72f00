// What every attention kernel computes, and how its tensors lie.
//
//   x[b, h, i, j] = Scores(scale * sum over e of q[b, h, i, e] * k[b, g, j, e])          g = h / group
//   y[b, h, i, :] = sum over j of softmax over j of x[b, h, i, j] * v[b, g, j, :]
//
//   q [B, H, queries, depth], k [B, H / group, keys, depth], v [B, H / group, keys, value_depth], y [B, H, queries, value_depth]
//
// A row is NaN where all its scores are minus infinity or one is NaN. With `nan_guard` it is 0 instead.
#pragma once

#include "common/expr.cuh"
#include "kernels/attention/problem.h"

constexpr float minus_infinity = __builtin_bit_cast(float, 0xff800000u);
