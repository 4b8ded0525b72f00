// Rows and lines folded a register at a time. A short row costs its loads, its folds and a few shuffles, no call.
#include "ops/cpu/rows/simd/folds.h"

#include "expr/simd/vector.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::Fold;

/// Of what is not yet squared.
template <Fold f, class V, class T> SMELT_INLINE V folded(V a, V b) {
  if constexpr (f == Fold::sum) return a + b;
  if constexpr (f == Fold::squares) return a + b * b;
  if constexpr (f == Fold::product) return a * b;
  if constexpr (f == Fold::max || f == Fold::min) {
    constexpr bool largest = f == Fold::max;
    if constexpr (std::is_same_v<V, T>)
      return (largest ? b > a : b < a) || b != b ? b : a;
    else
      return extreme_or_nan<largest, T>(a, b);
  }
}
constexpr Fold joining(Fold f) { return f == Fold::squares ? Fold::sum : f; }

template <Fold f, class T> constexpr T nothing() {
  constexpr bool largest = f == Fold::max;
  if constexpr (f == Fold::product) return T(1);
  if constexpr (f != Fold::max && f != Fold::min) return T(0);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(largest ? -__builtin_inf() : __builtin_inf());
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(largest ? 0 : ~T(0));
  constexpr int64_t top = sizeof(T) == 8 ? __LONG_MAX__ : (int64_t{1} << (8 * sizeof(T) - 1)) - 1;
  return static_cast<T>(largest ? -top - 1 : top);
}

/// The last register of a row, with `nothing` where its first lanes were folded already.
template <Fold f, class T> SMELT_INLINE Vector<T> rest_of(const T* x, int64_t n, int64_t rest) {
  using M = MaskOf<T>;
  Vector<M> lane;
  for (int i = 0; i < width<T>; ++i) lane[i] = static_cast<M>(i);
  const Vector<M> first = splat_vector(static_cast<M>(width<T> - rest));
  return lane < first ? splat_vector(nothing<f, T>()) : load_vector(x + n - width<T>);
}

/// A row of at least one register, in the lanes of one.
template <Fold f, class T> SMELT_INLINE Vector<T> row_in_lanes(const T* x, int64_t n) {
  using V = Vector<T>;
  const auto fold = [](V a, V b) __attribute__((always_inline)) { return folded<f, V, T>(a, b); };
  const auto join = [](V a, V b) __attribute__((always_inline)) { return folded<joining(f), V, T>(a, b); };
  constexpr int w = width<T>;
  V a = splat_vector(nothing<f, T>()), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    a = fold(a, load_vector(x + i)), b = fold(b, load_vector(x + i + w));
    c = fold(c, load_vector(x + i + 2 * w)), d = fold(d, load_vector(x + i + 3 * w));
  }
  if (i + w <= n) a = fold(a, load_vector(x + i)), i += w;
  if (i + w <= n) b = fold(b, load_vector(x + i)), i += w;
  if (i + w <= n) c = fold(c, load_vector(x + i)), i += w;
  if (i < n) d = fold(d, rest_of<f>(x, n, n - i));
  return join(join(a, b), join(c, d));
}
template <Fold f, class T> SMELT_INLINE T row(const T* x, int64_t n) {
  const auto join = [](Vector<T> a, Vector<T> b) __attribute__((always_inline)) {
    return folded<joining(f), Vector<T>, T>(a, b);
  };
  return across<T>(row_in_lanes<f>(x, n), join)[0];
}
/// As many rows as a register has lanes: together they take fewer shuffles, and give the same bits.
template <Fold f, class T> SMELT_INLINE void row_group(const T* x, int64_t step, int64_t n, T* to) {
  const auto join = [](Vector<T> a, Vector<T> b) __attribute__((always_inline)) {
    return folded<joining(f), Vector<T>, T>(a, b);
  };
  Vector<T> each[width<T>];
  for (int r = 0; r < width<T>; ++r) each[r] = row_in_lanes<f>(x + r * step, n);
  store_vector(to, across_each<T>(each, join));
}

template <Fold f, class T> void rows(const T* x, int64_t step, int64_t count, int64_t n, T* to) {
  // Four sums of f32 in a register each: 64 additions to one of them.
  constexpr int64_t block = 256 * width<T>;
  if (n < width<T>) {
    for (int64_t r = 0; r < count; ++r, x += step) {
      T total = nothing<f, T>();
      for (int64_t i = 0; i < n; ++i) total = folded<f, T, T>(total, x[i]);
      to[r] = total;
    }
    return;
  }
  if (n <= block) {
    int64_t r = 0;
    if constexpr (width<T> <= 16)
      for (; r + width<T> <= count; r += width<T>) row_group<f>(x + r * step, step, n, to + r);
    for (; r < count; ++r) to[r] = row<f>(x + r * step, n);
    return;
  }
  using A = std::conditional_t<std::is_same_v<T, float>, double, T>;
  for (int64_t r = 0; r < count; ++r, x += step) {
    A total = nothing<f, A>();
    int64_t i = 0;
    for (; n - i >= 2 * block; i += block) total = folded<joining(f), A, A>(total, row<f>(x + i, block));
    to[r] = static_cast<T>(folded<joining(f), A, A>(total, row<f>(x + i, n - i)));
  }
}

/// `together` lines at once, so that a result is loaded and stored once for all of them.
template <Fold f, int together, class T> SMELT_INLINE void lines_at_once(T* to, const T* x, int64_t step, int64_t n) {
  using V = Vector<T>;
  int64_t i = 0;
  for (; i + width<T> <= n; i += width<T>) {
    V a = load_vector(static_cast<const T*>(to) + i);
    for (int k = 0; k < together; ++k) a = folded<f, V, T>(a, load_vector(x + k * step + i));
    store_vector(to + i, a);
  }
  if (i == n) return;
  if (i > 0) {  // the last register again, with nothing to fold in its first lanes
    V a = load_vector(static_cast<const T*>(to) + n - width<T>);
    for (int k = 0; k < together; ++k) a = folded<f, V, T>(a, rest_of<f>(x + k * step, n, n - i));
    return store_vector(to + n - width<T>, a);
  }
  for (; i < n; ++i)
    for (int k = 0; k < together; ++k) to[i] = folded<f, T, T>(to[i], x[k * step + i]);
}

/// Lines of n elements, less than a register has, one behind the other: n registers hold as many whole lines as one has lanes. Each of
/// their lanes is folded for itself, and then with those that hold the same element of a line. Returns how many lines it took.
template <Fold f, int n, class T> SMELT_INLINE int64_t packed_lines(T* to, const T* x, int64_t count) {
  using V = Vector<T>;
  V all[n];
  for (int j = 0; j < n; ++j) all[j] = splat_vector(nothing<f, T>());
  int64_t k = 0;
  for (; k + width<T> <= count; k += width<T>, x += n * width<T>)
    for (int j = 0; j < n; ++j) all[j] = folded<f, V, T>(all[j], load_vector(x + j * width<T>));
  T each[n * width<T>];
  for (int j = 0; j < n; ++j) store_vector(each + j * width<T>, all[j]);
  for (int e = 0; e < n * width<T>; ++e) to[e % n] = folded<joining(f), T, T>(to[e % n], each[e]);
  return k;
}
template <Fold f, class T> int64_t any_packed_lines(T* to, const T* x, int64_t count, int64_t n) {
  switch (n) {
    case 1: return packed_lines<f, 1>(to, x, count);
    case 2: return packed_lines<f, 2>(to, x, count);
    case 3: return packed_lines<f, 3>(to, x, count);
    case 4: return packed_lines<f, 4>(to, x, count);
    case 5: return packed_lines<f, 5>(to, x, count);
    case 6: return packed_lines<f, 6>(to, x, count);
    case 7: return packed_lines<f, 7>(to, x, count);
    default: return 0;
  }
}

/// Lines that fill `registers` registers but the last of them, which is read beyond the line's end: results stay in registers from the
/// first line to the last one that has so much behind it. Two sets, so that a fold need not wait for the one before. Returns how many lines
/// it took.
template <Fold f, int registers, class T>
SMELT_INLINE int64_t narrow_lines(T* to, const T* x, int64_t step, int64_t count, int64_t n) {
  using V = Vector<T>;
  constexpr int64_t w = width<T>;
  const int64_t inside = (((count - 1) * step + n - registers * w) / step + 1) & ~int64_t{1};
  V all[2][registers];
  for (V& a : all[0]) a = splat_vector(nothing<f, T>());
  for (V& a : all[1]) a = splat_vector(nothing<f, T>());
  for (int64_t k = 0; k < inside; k += 2, x += 2 * step)
    for (int s = 0; s < 2; ++s)
      for (int j = 0; j < registers; ++j) all[s][j] = folded<f, V, T>(all[s][j], load_vector(x + s * step + j * w));
  T each[registers * w];
  for (int j = 0; j < registers; ++j) store_vector(each + j * w, folded<joining(f), V, T>(all[0][j], all[1][j]));
  for (int64_t i = 0; i < n; ++i) to[i] = folded<joining(f), T, T>(to[i], each[i]);
  return inside;
}
template <Fold f, class T> int64_t any_narrow_lines(T* to, const T* x, int64_t step, int64_t count, int64_t n) {
  constexpr int64_t w = width<T>;
  if (n % w == 0 || step < n || (count - 1) * step + n < 4 * w + 8 * step) return 0;
  switch (n / w) {
    case 0: return narrow_lines<f, 1>(to, x, step, count, n);
    case 1: return narrow_lines<f, 2>(to, x, step, count, n);
    case 2: return narrow_lines<f, 3>(to, x, step, count, n);
    case 3: return narrow_lines<f, 4>(to, x, step, count, n);
    default: return 0;
  }
}

template <Fold f, class T> void lines(T* to, const T* x, int64_t step, int64_t count, int64_t n) {
  int64_t k = 0;
  if (step == n && n < width<T> && count >= 2 * width<T>) k = any_packed_lines<f>(to, x, count, n);
  if (k == 0) k = any_narrow_lines<f>(to, x, step, count, n);
  for (; k + 4 <= count; k += 4) lines_at_once<f, 4>(to, x + k * step, step, n);
  for (; k < count; ++k) lines_at_once<f, 1>(to, x + k * step, step, n);
}

/// Calls body with f as a template argument.
template <class B> SMELT_INLINE void with_fold(Fold f, B&& body) {
  switch (f) {
    case Fold::sum: return body.template operator()<Fold::sum>();
    case Fold::squares: return body.template operator()<Fold::squares>();
    case Fold::max: return body.template operator()<Fold::max>();
    case Fold::min: return body.template operator()<Fold::min>();
    case Fold::product: return body.template operator()<Fold::product>();
  }
}

template <class T> void any_rows(Fold kind, const T* x, int64_t step, int64_t count, int64_t n, T* to) {
  with_fold(kind, [&]<Fold f>() { rows<f>(x, step, count, n, to); });
}
template <class T> void any_lines(Fold kind, T* to, const T* x, int64_t step, int64_t count, int64_t n) {
  with_fold(kind, [&]<Fold f>() { lines<f>(to, x, step, count, n); });
}
template <class T> constexpr ops::FoldsOf<T> folds_of = {any_rows<T>, any_lines<T>};

/// Of bytes, which have extremes alone.
template <class B> SMELT_INLINE void with_extreme(Fold f, B&& body) {
  f == Fold::max ? body.template operator()<Fold::max>() : body.template operator()<Fold::min>();
}
template <class T> void extreme_rows(Fold kind, const T* x, int64_t step, int64_t count, int64_t n, T* to) {
  with_extreme(kind, [&]<Fold f>() { rows<f>(x, step, count, n, to); });
}
template <class T> void extreme_lines(Fold kind, T* to, const T* x, int64_t step, int64_t count, int64_t n) {
  with_extreme(kind, [&]<Fold f>() { lines<f>(to, x, step, count, n); });
}
template <class T> constexpr ops::FoldsOf<T> extremes_of = {extreme_rows<T>, extreme_lines<T>};

}  // namespace

const ops::Folds& folds() {
  static constexpr ops::Folds table = {folds_of<float>,   folds_of<double>,    folds_of<int32_t>,
                                       folds_of<int64_t>, extremes_of<int8_t>, extremes_of<uint8_t>};
  return table;
}

}  // namespace smelt::SMELT_ISA
