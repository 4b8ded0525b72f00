// Lines into the buffers of a transform and back: element by element across the lines, whatever way they lie in memory. For
// *.simd.cpp sources only (isa.h).
#pragma once

#include <utility>

#include "expr/simd/half.h"
#include "ops/signal/simd/passes.h"

namespace smelt::SMELT_ISA {

SMELT_INLINE DoubleRegister read(const double* p) {
  DoubleRegister v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <class H> SMELT_INLINE FloatRegister read(const H* p) { return load(p).v; }
SMELT_INLINE void write(double* p, DoubleRegister v) { __builtin_memcpy(p, &v, sizeof(v)); }
template <class H> SMELT_INLINE void write(H* p, FloatRegister v) { store(p, F32(v)); }

template <class T> SMELT_INLINE T read_one(const T* p) { return *p; }
template <class T> SMELT_INLINE void write_one(T* p, T v) { *p = v; }
template <class H> SMELT_INLINE float read_half(const H* p) {
  float all[lanes];
  store(all, load_first(p, 1));
  return all[0];
}
SMELT_INLINE float read_one(const HalfBits* p) { return read_half(p); }
SMELT_INLINE float read_one(const BFloatBits* p) { return read_half(p); }
SMELT_INLINE void write_one(HalfBits* p, float v) { store_first(p, splat(v), 1); }
SMELT_INLINE void write_one(BFloatBits* p, float v) { store_first(p, splat(v), 1); }

/// The numbers of a and then b at the places that `place` names for each lane of n.
template <class V, int... lane> SMELT_INLINE V picked(V a, V b, auto place, std::integer_sequence<int, lane...>) {
  constexpr int n = sizeof...(lane);
  return __builtin_shufflevector(a, b, place(lane, n)...);
}
template <class V> SMELT_INLINE V picked(V a, V b, auto place) {
  return picked(a, b, place, std::make_integer_sequence<int, sizeof(V) / sizeof(a[0])>{});
}
/// The lower, or the upper, halves of a and b in turn: a[0], b[0], a[1], b[1], …
template <class V> SMELT_INLINE V lower(V a, V b) {
  return picked(a, b, [](int lane, int n) { return lane / 2 + lane % 2 * n; });
}
template <class V> SMELT_INLINE V upper(V a, V b) {
  return picked(a, b, [](int lane, int n) { return n / 2 + lane / 2 + lane % 2 * n; });
}
/// The numbers at even, or at odd, places of a and then b.
template <class V> SMELT_INLINE V at_even(V a, V b) {
  return picked(a, b, [](int lane, int) { return 2 * lane; });
}
template <class V> SMELT_INLINE V at_odd(V a, V b) {
  return picked(a, b, [](int lane, int) { return 2 * lane + 1; });
}

/// Rows become columns.
template <class V, int64_t n> SMELT_INLINE void transpose(V (&rows)[n]) {
  for (int64_t step = 1; step < n; step *= 2) {
    V out[n];
    for (int64_t i = 0; i < n / 2; ++i) {
      out[2 * i] = lower(rows[i], rows[i + n / 2]);
      out[2 * i + 1] = upper(rows[i], rows[i + n / 2]);
    }
    for (int64_t i = 0; i < n; ++i) rows[i] = out[i];
  }
}

/// How a group of lines lies in memory.
enum class Lying : uint8_t {
  along,         // the numbers of a line side by side
  side_by_side,  // the same element of all lines
  apart,
};
template <class H> SMELT_INLINE Lying lying(const H* const* lines, int64_t count, int64_t all, int64_t parts, int64_t step) {
  if (step == parts) return Lying::along;
  bool beside = count == all;
  for (int64_t l = 1; l < count; ++l) beside = beside && lines[l] - lines[l - 1] == parts;
  return beside ? Lying::side_by_side : Lying::apart;
}

/// A register for each number of the elements, `parts` to an element, times the window or the scale.
template <class T, class H> void load_lines(const ops::LineTransform<T>& t, const H* const* lines, int64_t count, T* to) {
  constexpr int64_t n = width<T>;
  const int64_t parts = t.parts_in, rows = t.read * parts, step = t.step_in;
  const auto weight = [&](int64_t row) { return t.window ? t.window[parts == 2 ? row / 2 : row] : t.scale; };
  const Lying way = lying(lines, count, n, parts, step);
  int64_t r = 0;
  if (way == Lying::along) {
    for (; r + n <= rows; r += n) {
      Register<T> v[n];
      for (int64_t l = 0; l < n; ++l) v[l] = read(lines[l] + r);
      transpose(v);
      for (int64_t k = 0; k < n; ++k) write(to + (r + k) * n, v[k] * broadcast(weight(r + k)));
    }
  } else if (way == Lying::side_by_side) {
    for (; r < rows; r += parts) {
      const H* from = lines[0] + r / parts * step;
      const Register<T> a = read(from), w = broadcast(weight(r));
      if (parts == 1) {
        write(to + r * n, a * w);
      } else {
        const Register<T> b = read(from + n);
        write(to + r * n, at_even(a, b) * w);
        write(to + (r + 1) * n, at_odd(a, b) * w);
      }
    }
  }
  for (; r < rows; ++r)
    for (int64_t l = 0; l < n; ++l) to[r * n + l] = read_one(lines[l] + r / parts * step + r % parts) * weight(r);
}

/// The reverse, of the elements that are stored; lines from `count` on are left out.
template <class T, class H> void store_lines(const ops::LineTransform<T>& t, const T* from, H* const* lines, int64_t count) {
  constexpr int64_t n = width<T>;
  const int64_t parts = t.parts_out, rows = t.written * parts, step = t.step_out;
  const Lying way = lying(lines, count, n, parts, step);
  int64_t r = 0;
  if (way == Lying::along) {
    for (; r + n <= rows; r += n) {
      Register<T> v[n];
      for (int64_t k = 0; k < n; ++k) v[k] = read(from + (r + k) * n);
      transpose(v);
      for (int64_t l = 0; l < count; ++l) write(lines[l] + r, v[l]);
    }
  } else if (way == Lying::side_by_side) {
    for (; r < rows; r += parts) {
      H* to = lines[0] + r / parts * step;
      const Register<T> a = read(from + r * n);
      if (parts == 1) {
        write(to, a);
      } else {
        const Register<T> b = read(from + (r + 1) * n);
        write(to, lower(a, b));
        write(to + n, upper(a, b));
      }
    }
  }
  for (; r < rows; ++r)
    for (int64_t l = 0; l < count; ++l) write_one(lines[l] + r / parts * step + r % parts, from[r * n + l]);
}

}  // namespace smelt::SMELT_ISA
