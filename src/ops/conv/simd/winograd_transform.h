// F(2x2, 3x3)'s transforms of a tile in registers (Lavin and Gray, 2016), of any lanes. For *.simd.cpp sources compiled with
// AVX2.
#pragma once

#include "ops/cpu/igemm/simd/lanes.h"

namespace smelt::avx2 {

/// Four values along an axis to the four of Bᵀ.
template <class Lanes, class Vector>
inline __attribute__((always_inline)) void winograd_forward(Vector& a, Vector& b, Vector& c, Vector& d) {
  const Vector first = Lanes::sub(a, c), second = Lanes::add(b, c), third = Lanes::sub(c, b), fourth = Lanes::sub(b, d);
  a = first;
  b = second;
  c = third;
  d = fourth;
}

/// Bᵀ d B: load(i) gives pixel i of 16, row-major, store(i, v) takes position i.
template <class Lanes, class Load, class Store>
inline __attribute__((always_inline)) void winograd_input(Load load, Store store) {
  typename Lanes::Vector v[4][4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) v[y][x] = load(4 * y + x);
    winograd_forward<Lanes>(v[0][x], v[1][x], v[2][x], v[3][x]);
  }
#pragma GCC unroll 4
  for (int y = 0; y < 4; ++y) {
    winograd_forward<Lanes>(v[y][0], v[y][1], v[y][2], v[y][3]);
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) store(4 * y + x, v[y][x]);
  }
}

/// Aᵀ m A: load(i) gives position i of 16, store(i, v) takes output i of 4, row-major.
template <class Lanes, class Load, class Store>
inline __attribute__((always_inline)) void winograd_output(Load load, Store store) {
  using Vector = typename Lanes::Vector;
  Vector rows[2][4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
    const Vector a = load(x), b = load(4 + x), c = load(8 + x), d = load(12 + x);
    rows[0][x] = Lanes::add(a, Lanes::add(b, c));
    rows[1][x] = Lanes::sub(Lanes::sub(b, c), d);
  }
#pragma GCC unroll 2
  for (int y = 0; y < 2; ++y) {
    const Vector* r = rows[y];
    store(2 * y, Lanes::add(r[0], Lanes::add(r[1], r[2])));
    store(2 * y + 1, Lanes::sub(Lanes::sub(r[1], r[2]), r[3]));
  }
}

}  // namespace smelt::avx2
