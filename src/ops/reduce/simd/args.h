// Where the extremes of lines stand, and what may be among the top few. For *.simd.cpp sources only (expr/simd/isa.h).
#pragma once

#include "ops/reduce/simd/elements.h"

namespace smelt::SMELT_ISA {

/// Whether v is found rather than what was found before it.
template <class C, bool largest, bool last> SMELT_INLINE Vector<MaskOf<C>> is_found(Vector<C> v, Vector<C> best) {
  if constexpr (!std::is_floating_point_v<C>)
    return reinterpret_cast<Vector<MaskOf<C>>>(last ? (largest ? v >= best : v <= best) : (largest ? v > best : v < best));
  else if constexpr (last)
    return reinterpret_cast<Vector<MaskOf<C>>>((largest ? v >= best : v <= best) | (v != v));
  else
    return reinterpret_cast<Vector<MaskOf<C>>>(~(largest ? v <= best : v >= best) & (best == best));
}

template <class Place> SMELT_INLINE void store_places(int64_t* y, Vector<Place> at) {
  typedef int64_t Wide __attribute__((vector_size(8 * sizeof at / sizeof(Place))));
  const Wide places = __builtin_convertvector(at, Wide);
  __builtin_memcpy(y, &places, sizeof places);
}

/// Lines from `whole` on have no more than `count` elements before the tensor ends: of those before, a register may read further.
template <class E, bool largest, bool last, int registers>
SMELT_INLINE void arg_columns_at_once(const E* x, int64_t step, int64_t count, int64_t n, int64_t whole, int64_t* y) {
  using C = ComparedAs<E>;
  using Place = MaskOf<C>;
  constexpr int w = width<C>;
  Vector<C> best[registers];
  Vector<Place> at[registers];
  for (int r = 0; r < registers; ++r)
    best[r] = whole > 0 ? load_elements(x + r * w) : load_elements(x + r * w, count), at[r] = Vector<Place>{};
  const auto take = [&](int64_t k, auto elements) __attribute__((always_inline)) {
    const Vector<Place> here = splat_vector(static_cast<Place>(k));
    for (int r = 0; r < registers; ++r) {
      const Vector<C> v = elements(x + k * step + r * w);
      const Vector<Place> found = is_found<C, largest, last>(v, best[r]);
      best[r] = found ? v : best[r];
      at[r] = found ? here : at[r];
    }
  };
  int64_t k = 1;
  for (; k < whole; ++k) take(k, [](const E* p) { return load_elements(p); });
  for (; k < n; ++k) take(k, [count](const E* p) { return load_elements(p, count); });
  if (count >= w) {
    for (int r = 0; r < registers; ++r) store_places<Place>(y + r * w, at[r]);
  } else {
    int64_t places[w];
    store_places<Place>(places, at[0]);
    for (int64_t i = 0; i < count; ++i) y[i] = places[i];
  }
}

template <class E, bool largest, bool last> void arg_columns(const E* x, int64_t step, int64_t columns, int64_t n, int64_t* y) {
  constexpr int w = width<ComparedAs<E>>, registers = 4;
  int64_t c = 0;
  for (; c + registers * w <= columns; c += registers * w)
    arg_columns_at_once<E, largest, last, registers>(x + c, step, w, n, n, y + c);
  for (; c < columns; c += w) {
    const int64_t count = columns - c < w ? columns - c : w;
    // Line k has (n - 1 - k) · step + count elements up to the end.
    const int64_t lines = count == w ? n : n - (w - count + step - 1) / step;
    arg_columns_at_once<E, largest, last, 1>(x + c, step, count, n, lines < 0 ? 0 : lines, y + c);
  }
}

/// The extreme first, which needs no places, then where it stands: of the first the least place, of the last the greatest.
template <class E, bool largest, bool last> SMELT_INLINE int64_t arg_row(const E* x, int64_t n) {
  using C = ComparedAs<E>;
  using Place = MaskOf<C>;
  constexpr int w = width<C>;
  const auto further = [](Vector<C> a, Vector<C> b) __attribute__((always_inline)) { return extreme_or_nan<largest, C>(a, b); };
  Vector<C> tops[2] = {load_elements(x, n), load_elements(x, n)};
  int64_t i = w;
  for (; i + 2 * w <= n; i += 2 * w)
    tops[0] = further(tops[0], load_elements(x + i)), tops[1] = further(tops[1], load_elements(x + i + w));
  if (i + w <= n) tops[0] = further(tops[0], load_elements(x + i)), i += w;
  const int64_t end = n - w;  // where the last register of elements begins
  if (i < n) tops[1] = further(tops[1], load_elements(x + end));
  const Vector<C> top = across<C>(further(tops[0], tops[1]), further);

  constexpr Place none = last ? Place(-1) : static_cast<Place>(~(Place(1) << (sizeof(Place) * 8 - 1)));
  Vector<Place> lane;
  for (int u = 0; u < w; ++u) lane[u] = u;
  Vector<Place> found = splat_vector(none);
  const auto nearer = [](Vector<Place> a, Vector<Place> b) __attribute__((always_inline)) {
    return (last ? a > b : a < b) ? a : b;
  };
  const auto look = [&](Vector<C> v, int64_t first) __attribute__((always_inline)) {
    auto is = reinterpret_cast<Vector<Place>>(v == top);
    if constexpr (std::is_floating_point_v<C>) is |= reinterpret_cast<Vector<Place>>(v != v);  // the top is one then
    found = nearer(is ? lane + splat_vector(static_cast<Place>(first)) : splat_vector(none), found);
  };
  // The first stands in one of the first blocks, mostly: whole rows are looked through only where they are short.
  constexpr int64_t block = 64 * w;
  if (n < w) {
    look(load_elements(x, n), 0);
    found = lane < splat_vector(static_cast<Place>(n)) ? found : splat_vector(none);
    return across<Place>(found, nearer)[0];
  }
  for (i = 0; i + w <= n; i += w) {
    look(load_elements(x + i), i);
    if (!last && i % block == block - w && any<C>(found != none)) break;
  }
  if (i < n && i + w > n) look(load_elements(x + end), end);
  return across<Place>(found, nearer)[0];
}

/// n elements of rows, whose n the compiler knows, so that it moves them by registers: to[k · most + r] of row r.
template <int64_t n, int64_t most, class E> SMELT_INLINE void turn_rows(const E* __restrict x, int64_t rows, E* __restrict to) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) to[k * most + r] = x[r * n + k];
}

/// Few elements in few columns, of many tensors: all columns of some tensors lie side by side, so that a register holds one element of as
/// many, without moves between lanes.
constexpr int64_t few_elements = 16;
template <class E, bool largest, bool last>
void arg_short_columns(const E* x, int64_t columns, int64_t n, int64_t outers, int64_t* y) {
  constexpr int64_t most = 64;
  E turned[few_elements * most];
  const int64_t at_once = most / columns;
  for (; outers > 0; outers -= at_once, x += at_once * n * columns, y += at_once * columns) {
    const int64_t some = outers < at_once ? outers : at_once;
    switch (columns == 1 ? n : 0) {
      case 1: turn_rows<1, most>(x, some, turned); break;
      case 2: turn_rows<2, most>(x, some, turned); break;
      case 3: turn_rows<3, most>(x, some, turned); break;
      case 4: turn_rows<4, most>(x, some, turned); break;
      case 5: turn_rows<5, most>(x, some, turned); break;
      case 6: turn_rows<6, most>(x, some, turned); break;
      case 7: turn_rows<7, most>(x, some, turned); break;
      default:
        // Along k, not along c, whose few elements a compiler would copy by a call.
        for (int64_t o = 0; o < some; ++o)
          for (int64_t c = 0; c < columns; ++c)
            for (int64_t k = 0; k < n; ++k) turned[k * most + o * columns + c] = x[(o * n + k) * columns + c];
    }
    arg_columns<E, largest, last>(turned, most, some * columns, n, y);
  }
}

/// Bytes are compared as they are, and the first of a value is looked for as such.
template <class E, bool largest> SMELT_INLINE int64_t first_of_bytes(const E* x, int64_t n) {
  E top = x[0];
  for (int64_t i = 0; i < n; ++i) top = (largest ? x[i] > top : x[i] < top) ? x[i] : top;
  return static_cast<const E*>(__builtin_memchr(x, static_cast<uint8_t>(top), static_cast<uint64_t>(n))) - x;
}

template <class E, bool largest, bool last> void arg_rows(const E* x, int64_t rows, int64_t n, int64_t* y) {
  constexpr int64_t short_row = 32;
  if constexpr (sizeof(E) == 1 && !last) {
    if (n >= short_row) {
      for (int64_t r = 0; r < rows; ++r) y[r] = first_of_bytes<E, largest>(x + r * n, n);
      return;
    }
  }
  if (n <= few_elements && n < width<ComparedAs<E>> && rows > 1) return arg_short_columns<E, largest, last>(x, 1, n, rows, y);
  for (int64_t r = 0; r < rows; ++r) y[r] = arg_row<E, largest, last>(x + r * n, n);
}

template <class E, bool largest, bool last> void arg_tensors(const E* x, int64_t columns, int64_t n, int64_t outers, int64_t* y) {
  if (n <= few_elements && columns < width<ComparedAs<E>> && outers > 1)
    return arg_short_columns<E, largest, last>(x, columns, n, outers, y);
  for (int64_t o = 0; o < outers; ++o) arg_columns<E, largest, last>(x + o * n * columns, columns, columns, n, y + o * columns);
}

template <class E, bool largest> int64_t next_before(const E* x, int64_t from, int64_t n, int64_t worst) {
  using C = ComparedAs<E>;
  constexpr int w = width<C>;
  const C bound = element(x[worst]);
  const Vector<C> bounds = splat_vector(bound);
  const auto before = [&](const E* p) __attribute__((always_inline)) {
    const Vector<C> v = load_elements(p);
    return reinterpret_cast<Vector<MaskOf<C>>>(~(largest ? v <= bounds : v >= bounds));
  };
  int64_t i = from;
  for (; i + 4 * w <= n; i += 4 * w)
    if (any<C>(before(x + i) | before(x + i + w) | before(x + i + 2 * w) | before(x + i + 3 * w))) break;
  for (; i + w <= n; i += w)
    if (any<C>(before(x + i))) break;
  for (; i < n; ++i) {
    const C v = element(x[i]);
    if (!(largest ? v <= bound : v >= bound)) return i;
  }
  return n;
}

/// Whether a comes before b by its value: a NaN is larger than every number.
template <class C, bool largest> SMELT_INLINE Vector<MaskOf<C>> is_before(Vector<C> a, Vector<C> b) {
  auto before = reinterpret_cast<Vector<MaskOf<C>>>(largest ? a > b : a < b);
  if constexpr (std::is_floating_point_v<C>)
    before |= reinterpret_cast<Vector<MaskOf<C>>>(largest ? (a != a) & (b == b) : (a == a) & (b != b));
  return before;
}

/// The first k of each column in order, in registers of columns. places[j · places_step + c]: where the j-th of column c stands. Lines from
/// `whole` on have no more than `count` elements before the tensor ends.
template <class E, bool largest> SMELT_INLINE void top_columns_at_once(const E* x, int64_t step, int64_t count, int64_t n,
                                                                       int64_t whole, int64_t k, int64_t* places,
                                                                       int64_t places_step) {
  using C = ComparedAs<E>;
  using Place = MaskOf<C>;
  Vector<C> best[ops::top_columns_most];
  Vector<Place> at[ops::top_columns_most];
  for (int64_t e = 0; e < n; ++e) {
    Vector<C> v = e < whole ? load_elements(x + e * step) : load_elements(x + e * step, count);
    const int64_t filled = e < k ? e : k;
    if (filled == k && !any<C>(is_before<C, largest>(v, best[k - 1]))) continue;
    Vector<Place> here = splat_vector(static_cast<Place>(e)), in = {};
    for (int64_t j = 0; j < filled; ++j) {
      in |= is_before<C, largest>(v, best[j]);  // all behind it move on by one
      const Vector<C> next = in ? best[j] : v;
      const Vector<Place> next_at = in ? at[j] : here;
      best[j] = in ? v : best[j], at[j] = in ? here : at[j];
      v = next, here = next_at;
    }
    if (filled < k) best[filled] = v, at[filled] = here;
  }
  for (int64_t j = 0; j < k; ++j) {
    int64_t all[width<C>];
    store_places<Place>(all, at[j]);
    for (int64_t c = 0; c < count && c < width<C>; ++c) places[j * places_step + c] = all[c];
  }
}
template <class E, bool largest>
void top_columns(const E* x, int64_t step, int64_t columns, int64_t n, int64_t k, int64_t* places, int64_t places_step) {
  constexpr int w = width<ComparedAs<E>>;
  for (int64_t c = 0; c < columns; c += w) {
    const int64_t count = columns - c < w ? columns - c : w, lines = count == w ? n : n - (w - count + step - 1) / step;
    top_columns_at_once<E, largest>(x + c, step, count, n, lines < 0 ? 0 : lines, k, places + c, places_step);
  }
}

}  // namespace smelt::SMELT_ISA
