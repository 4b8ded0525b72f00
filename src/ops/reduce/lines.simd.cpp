// Lines of elements, a register at a time where they lie side by side.
#include "ops/reduce/simd/lines.h"

#include "expr/simd/reduce.h"
#include "ops/reduce/simd/args.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::ArgRule;
using ops::LineElement;
using ops::ScanRule;

template <class E> void arg_rows_of(const E* x, int64_t rows, int64_t n, ArgRule rule, int64_t* y) {
  if (rule.largest)
    (rule.last ? arg_rows<E, true, true> : arg_rows<E, true, false>)(x, rows, n, y);
  else
    (rule.last ? arg_rows<E, false, true> : arg_rows<E, false, false>)(x, rows, n, y);
}
template <class E> void arg_columns_of(const E* x, int64_t step, int64_t columns, int64_t n, ArgRule rule, int64_t* y) {
  if (rule.largest)
    (rule.last ? arg_columns<E, true, true> : arg_columns<E, true, false>)(x, step, columns, n, y);
  else
    (rule.last ? arg_columns<E, false, true> : arg_columns<E, false, false>)(x, step, columns, n, y);
}

template <class E> void arg_tensors_of(const E* x, int64_t columns, int64_t n, int64_t outers, ArgRule rule, int64_t* y) {
  if (rule.largest)
    (rule.last ? arg_tensors<E, true, true> : arg_tensors<E, true, false>)(x, columns, n, outers, y);
  else
    (rule.last ? arg_tensors<E, false, true> : arg_tensors<E, false, false>)(x, columns, n, outers, y);
}

void any_arg_rows(LineElement e, const void* x, int64_t rows, int64_t n, ArgRule rule, int64_t* y) {
  with_element(e, [&]<class E>(const E*) { arg_rows_of(static_cast<const E*>(x), rows, n, rule, y); });
}
void any_arg_columns(LineElement e, const void* x, int64_t step, int64_t columns, int64_t n, ArgRule rule, int64_t* y) {
  with_element(e, [&]<class E>(const E*) { arg_columns_of(static_cast<const E*>(x), step, columns, n, rule, y); });
}
void any_arg_tensors(LineElement e, const void* x, int64_t columns, int64_t n, int64_t outers, ArgRule rule, int64_t* y) {
  with_element(e, [&]<class E>(const E*) { arg_tensors_of(static_cast<const E*>(x), columns, n, outers, rule, y); });
}
int64_t any_next_before(LineElement e, const void* x, int64_t from, int64_t n, int64_t worst, bool largest) {
  return with_element(e, [&]<class E>(const E*) {
    return (largest ? next_before<E, true> : next_before<E, false>)(static_cast<const E*>(x), from, n, worst);
  });
}

void any_top_columns(LineElement e, const void* x, int64_t step, int64_t columns, int64_t n, int64_t k, bool largest,
                     int64_t* places, int64_t places_step) {
  with_element(e, [&]<class E>(const E*) {
    (largest ? top_columns<E, true> : top_columns<E, false>)(static_cast<const E*>(x), step, columns, n, k, places, places_step);
  });
}

// --- running totals

/// What totals of E are kept in.
template <class E> struct TotalOf { using Type = std::make_unsigned_t<E>; };
template <> struct TotalOf<float> { using Type = double; };
template <> struct TotalOf<double> { using Type = double; };

/// A register of totals of type A, and as many elements of type E.
template <class E, class A> struct Piece {
  static constexpr int64_t count = width<A>;
  typedef E Elements __attribute__((vector_size(sizeof(E) * width<A>)));
  Vector<A> totals;

  SMELT_INLINE explicit Piece(bool product) : totals(splat_vector(static_cast<A>(product ? 1 : 0))) {}
  SMELT_INLINE explicit Piece(const A* from) : totals(load_vector(from)) {}
  /// The totals go on by the elements at x; y gets what stands there.
  template <bool product, bool exclusive> SMELT_INLINE void step(const E* x, E* y) {
    Elements e;
    __builtin_memcpy(&e, x, sizeof e);
    const Vector<A> v = __builtin_convertvector(e, Vector<A>), before = totals;
    totals = product ? before * v : before + v;
    e = __builtin_convertvector(exclusive ? before : totals, Elements);
    __builtin_memcpy(y, &e, sizeof e);
  }
};

template <bool product, bool exclusive, class E, class A>
SMELT_INLINE void scan_line(const E* __restrict x, E* __restrict y, A* __restrict totals, int64_t n) {
  using P = Piece<E, A>;
  int64_t k = 0;
  for (; k + P::count <= n; k += P::count) {
    P piece(static_cast<const A*>(totals + k));
    piece.template step<product, exclusive>(x + k, y + k);
    store_vector(totals + k, piece.totals);
  }
  for (; k < n; ++k) {
    const A e = static_cast<A>(x[k]), before = totals[k], after = static_cast<A>(product ? before * e : before + e);
    y[k] = static_cast<E>(exclusive ? before : after);
    totals[k] = after;
  }
}

/// Line after line of columns; 16-bit floats as f32 beside it.
template <bool product, bool exclusive, class E>
void scan_columns(const E* x, E* y, int64_t step, int64_t columns, int64_t n, bool reverse) {
  constexpr int64_t most = ops::scan_columns_most;
  using F = std::conditional_t<is_half<E>, float, E>;
  using A = typename TotalOf<F>::Type;
  A totals[most];
  for (int64_t k = 0; k < columns; ++k) totals[k] = product ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (reverse ? n - 1 - i : i) * step;
    if constexpr (is_half<E>) {
      float from[most + lanes], to[most + lanes];
      for_registers(columns, [&](int64_t k, int64_t c) { store(from + k, get(x + at + k, c)); });
      scan_line<product, exclusive>(from, to, totals, columns);
      for_registers(columns, [&](int64_t k, int64_t c) { put(y + at + k, load(static_cast<const float*>(to) + k), c); });
    } else {
      scan_line<product, exclusive>(x + at, y + at, totals, columns);
    }
  }
}

/// Tensors of fewer columns than a piece has elements: each line is read and written as a piece, whose other elements are of the line
/// that comes next, which is written after it: behind the line, or before it where the lines are walked from the last to the first.
template <bool product, bool exclusive, class E>
void scan_few_columns(const E* x, E* y, int64_t columns, int64_t n, int64_t outers, bool reverse) {
  using P = Piece<E, typename TotalOf<E>::Type>;
  const int64_t lines = outers * n, on = reverse ? -columns : columns, before = reverse ? P::count - columns : 0;
  // The last lines that are walked have nothing behind them.
  const int64_t inside = lines * columns < P::count ? 0 : (lines * columns - P::count) / columns + 1;
  int64_t at = reverse ? (lines - 1) * columns : 0;
  for (int64_t o = 0, line = 0; o < outers; ++o) {
    P piece(product);
    for (int64_t i = 0; i < n; ++i, ++line, at += on) {
      if (line < inside) {
        piece.template step<product, exclusive>(x + at - before, y + at - before);
        continue;
      }
      E part[P::count] = {};
      for (int64_t k = 0; k < columns; ++k) part[before + k] = x[at + k];
      piece.template step<product, exclusive>(part, part);
      for (int64_t k = 0; k < columns; ++k) y[at + k] = part[before + k];
    }
  }
}

/// Some columns, `pieces` of them at a time, from top to bottom. The last ones lie over part of those before them.
template <int pieces, bool product, bool exclusive, class E>
SMELT_INLINE void scan_pieces(const E* x, E* y, int64_t step, int64_t n, bool reverse) {
  using P = Piece<E, typename TotalOf<E>::Type>;
  const int64_t from = reverse ? (n - 1) * step : 0, on = reverse ? -step : step;
  x += from, y += from;
  P a(product), b(product), c(product), d(product);
  for (int64_t i = 0; i < n; ++i, x += on, y += on) {
    a.template step<product, exclusive>(x, y);
    if constexpr (pieces > 1) b.template step<product, exclusive>(x + P::count, y + P::count);
    if constexpr (pieces > 2) {
      c.template step<product, exclusive>(x + 2 * P::count, y + 2 * P::count);
      d.template step<product, exclusive>(x + 3 * P::count, y + 3 * P::count);
    }
  }
}
template <bool product, bool exclusive, class E>
void scan_some_columns(const E* x, E* y, int64_t step, int64_t columns, int64_t n, bool reverse) {
  constexpr int64_t count = Piece<E, typename TotalOf<E>::Type>::count;
  int64_t c = 0;
  for (; c + 4 * count <= columns; c += 4 * count) scan_pieces<4, product, exclusive>(x + c, y + c, step, n, reverse);
  for (; c + 2 * count <= columns; c += 2 * count) scan_pieces<2, product, exclusive>(x + c, y + c, step, n, reverse);
  for (; c < columns; c += count) {
    const int64_t first = c < columns - count ? c : columns - count;
    scan_pieces<1, product, exclusive>(x + first, y + first, step, n, reverse);
  }
}

/// Whether columns are walked from top to bottom, totals in registers, and not line by line: of few columns a walk reads whole lines, and
/// few elements are worth no totals in memory.
template <class E> bool goes_down(int64_t columns, int64_t n) {
  constexpr int64_t few_columns = 64, few_elements = 24;
  if constexpr (is_half<E>)
    return false;
  else
    return columns >= Piece<E, typename TotalOf<E>::Type>::count && (columns <= few_columns || n <= few_elements);
}

/// So many rows side by side: each addition waits for the one before it in its row, but not for those of the others.
constexpr int rows_together = 8;
template <bool product, bool exclusive, int rows, class E, class A>
SMELT_INLINE void scan_rows(const E* x, E* y, int64_t step, int64_t n, bool reverse, A* totals) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = reverse ? n - 1 - i : i;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const A e = static_cast<A>(x[r * step + at]), before = totals[r], after = static_cast<A>(product ? before * e : before + e);
      y[r * step + at] = static_cast<E>(exclusive ? before : after);
      totals[r] = after;
    }
  }
}

/// A row of 16-bit floats, part by part as f32 beside it.
template <bool product, bool exclusive, class E> void scan_half_row(const E* x, E* y, int64_t n, bool reverse) {
  constexpr int64_t most = 64 * lanes;
  float from[most], to[most];
  double total = product ? 1 : 0;
  for (int64_t done = 0; done < n; done += most) {
    const int64_t count = n - done < most ? n - done : most, at = reverse ? n - done - count : done;
    for_registers(count, [&](int64_t i, int64_t c) { store(from + i, get(x + at + i, c)); });
    scan_rows<product, exclusive, 1>(from, to, 0, count, reverse, &total);
    for_registers(count, [&](int64_t i, int64_t c) { put(y + at + i, load(static_cast<const float*>(to) + i), c); });
  }
}

template <bool product, bool exclusive, class E> void all_rows(const E* x, E* y, int64_t rows, int64_t n, bool reverse) {
  if constexpr (is_half<E>) {
    for (int64_t r = 0; r < rows; ++r) scan_half_row<product, exclusive>(x + r * n, y + r * n, n, reverse);
  } else {
    typename TotalOf<E>::Type totals[rows_together];
    const auto begin = [&] {
      for (auto& t : totals) t = product ? 1 : 0;
    };
    int64_t r = 0;
    for (; r + rows_together <= rows; r += rows_together)
      begin(), scan_rows<product, exclusive, rows_together>(x + r * n, y + r * n, n, n, reverse, totals);
    for (; r < rows; ++r) begin(), scan_rows<product, exclusive, 1>(x + r * n, y + r * n, n, n, reverse, totals);
  }
}

/// Calls body with the rule's product and exclusive as template arguments.
template <class B> void with_rule(ScanRule rule, B&& body) {
  if (rule.product) return rule.exclusive ? body.template operator()<true, true>() : body.template operator()<true, false>();
  return rule.exclusive ? body.template operator()<false, true>() : body.template operator()<false, false>();
}

void any_scan_rows(LineElement e, const void* x, void* y, int64_t rows, int64_t n, ScanRule rule) {
  with_element(e, [&]<class E>(const E*) {
    with_rule(rule, [&]<bool product, bool exclusive>() {
      all_rows<product, exclusive>(static_cast<const E*>(x), static_cast<E*>(y), rows, n, rule.reverse);
    });
  });
}
void any_scan_columns(LineElement e, const void* x, void* y, int64_t step, int64_t columns, int64_t n, ScanRule rule) {
  with_element(e, [&]<class E>(const E*) {
    with_rule(rule, [&]<bool product, bool exclusive>() {
      const E* from = static_cast<const E*>(x);
      E* to = static_cast<E*>(y);
      if constexpr (!is_half<E>) {
        if (goes_down<E>(columns, n)) return scan_some_columns<product, exclusive>(from, to, step, columns, n, rule.reverse);
      }
      scan_columns<product, exclusive>(from, to, step, columns, n, rule.reverse);
    });
  });
}
template <bool product, bool exclusive, class E>
void scan_tensors_of(const E* x, E* y, int64_t columns, int64_t n, int64_t outers, bool reverse) {
  if constexpr (!is_half<E>) {
    if (columns < Piece<E, typename TotalOf<E>::Type>::count)
      return scan_few_columns<product, exclusive>(x, y, columns, n, outers, reverse);
  }
  for (int64_t o = 0; o < outers; ++o, x += n * columns, y += n * columns) {
    if constexpr (!is_half<E>) {
      if (goes_down<E>(columns, n)) {
        scan_some_columns<product, exclusive>(x, y, columns, columns, n, reverse);
        continue;
      }
    }
    scan_columns<product, exclusive>(x, y, columns, columns, n, reverse);
  }
}
void any_scan_tensors(LineElement e, const void* x, void* y, int64_t columns, int64_t n, int64_t outers, ScanRule rule) {
  with_element(e, [&]<class E>(const E*) {
    with_rule(rule, [&]<bool product, bool exclusive>() {
      scan_tensors_of<product, exclusive>(static_cast<const E*>(x), static_cast<E*>(y), columns, n, outers, rule.reverse);
    });
  });
}

}  // namespace

const ops::LineSimd& line_simd() {
  static constexpr ops::LineSimd table = {any_arg_rows,     any_arg_columns,  any_arg_tensors, any_scan_rows,
                                          any_scan_columns, any_scan_tensors, any_next_before, any_top_columns};
  return table;
}

}  // namespace smelt::SMELT_ISA
