// A window's fold is separable: the rows below a place fold into one line, and each place folds its taps of that line. Maxima of
// long windows are doubled: those of two windows of n that overlap or touch make one of n + 1 to 2n, so that a window of k takes
// log2(k) folds. NaNs are looked for once a plane; without one, the maximum is a single instruction.
#include "expr/simd/vector.h"
#include "ops/pool/simd/planes.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::pool::PlaneWindows;

/// V: an element, or a register of them.
template <class T> struct Larger {
  static constexpr bool repeats = true;  // folding a value twice changes nothing
  static constexpr T start = std::is_floating_point_v<T> ? -__builtin_inf()
                             : std::is_unsigned_v<T>     ? 0
                             : sizeof(T) == 1            ? -128
                                                         : -32768;
  template <class V> static SMELT_INLINE V of(V a, V b) {
    if constexpr (std::is_same_v<V, T>)
      return a > b ? a : b;
    else
      return extreme<true, T>(a, b);
  }
};
template <class T> struct LargerOrNan : Larger<T> {
  template <class V> static SMELT_INLINE V of(V a, V b) {
    if constexpr (std::is_same_v<V, T>)
      return (b > a) | (b != b) ? b : a;
    else
      return extreme_or_nan<true, T>(a, b);
  }
};
template <class T> struct Sum {
  static constexpr bool repeats = false;
  static constexpr T start = 0;
  template <class V> static SMELT_INLINE V of(V a, V b) { return a + b; }
};

/// to[i] = the fold of from[0][i] … from[count - 1][i]. `again`: `to` is one of them.
template <class Op, int count, class T> void fold(T* to, const T* const* from, int64_t n, bool again) {
  constexpr int64_t size = width<T>;
  const auto at = [&](int64_t i) {
    auto v = load_vector(from[0] + i);
    for (int k = 1; k < count; ++k) v = Op::of(v, load_vector(from[k] + i));
    store_vector(to + i, v);
  };
  int64_t i = 0;
  for (; i + size <= n; i += size) at(i);
  if (i < n && n >= size && (Op::repeats || !again)) return at(n - size);
  for (; i < n; ++i) {
    T v = from[0][i];
    for (int k = 1; k < count; ++k) v = Op::of(v, from[k][i]);
    to[i] = v;
  }
}

/// The fold of `count` lines `step` apart.
template <class Op, class T> void fold_lines(T* to, const T* from, int64_t step, int64_t count, int64_t n) {
  using Fold = void (*)(T*, const T* const*, int64_t, bool);
  static constexpr Fold folds[] = {nullptr,        fold<Op, 1, T>, fold<Op, 2, T>, fold<Op, 3, T>, fold<Op, 4, T>,
                                   fold<Op, 5, T>, fold<Op, 6, T>, fold<Op, 7, T>, fold<Op, 8, T>};
  constexpr int64_t most = 8;
  const T* lines[most];
  for (int64_t k = 0; k < count;) {
    const bool again = k > 0;
    int64_t m = 0;
    if (again) lines[m++] = to;
    for (; m < most && k < count; ++m, ++k) lines[m] = from + k * step;
    folds[m](to, lines, n, again);
  }
  if (count == 0)
    for (int64_t i = 0; i < n; ++i) to[i] = Op::start;
}

template <class T> struct Doubled {
  const T* from;
  int64_t shift, n;  // to[i] = fold(from[i], from[i + shift]) is what is left, for i < n
};
/// Windows of `kernel` > 1 elements `step` apart over `from`'s n; `spare` holds two such lines, `apart` elements apart.
template <class Op, class T>
Doubled<T> double_windows(const T* from, int64_t n, int64_t kernel, int64_t step, T* spare, int64_t apart) {
  int64_t length = 1;
  for (int side = 0; 2 * length < kernel; length *= 2, side ^= 1) {
    T* to = spare + side * apart;
    const T* pair[] = {from, from + length * step};
    fold<Op, 2>(to, pair, n -= length * step, false);
    from = to;
  }
  return {from, (kernel - length) * step, n - (kernel - length) * step};
}

/// phases[r][j] = row[j · stride + r].
template <class T> void split_phases(const T* __restrict row, int64_t stride, int64_t n, T* __restrict phases) {
  if (stride == 2) {
    for (int64_t j = 0; j < n; ++j) phases[j] = row[2 * j], phases[n + j] = row[2 * j + 1];
    return;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t r = 0; r < stride; ++r) phases[r * n + j] = row[j * stride + r];
}

/// A padded row to the places' folds.
template <class Op, class T> void fold_taps(const PlaneWindows& p, const T* row, T* y, T* spare) {
  const int64_t kernel = p.kernel[1], stride = p.stride[1], dilation = p.dilation[1], places = p.places[1];
  if (p.wide) {
    const Doubled<T> d =
        double_windows<Op>(row, (places - 1) * stride + (kernel - 1) * dilation + 1, kernel, dilation, spare, p.line);
    if (stride == 1) {
      const T* pair[] = {d.from, d.from + d.shift};
      return fold<Op, 2>(y, pair, places, false);
    }
    for (int64_t i = 0; i < places; ++i) y[i] = Op::of(d.from[i * stride], d.from[i * stride + d.shift]);
    return;
  }
  if (stride == 1) return fold_lines<Op>(y, row, dilation, kernel, places);
  const int64_t n = places + (kernel - 1) * dilation / stride;
  split_phases(row, stride, n, spare);
  using Fold = void (*)(T*, const T* const*, int64_t, bool);
  static constexpr Fold folds[] = {nullptr, fold<Op, 1, T>, fold<Op, 2, T>, fold<Op, 3, T>, fold<Op, 4, T>};
  const T* taps[4];
  for (int64_t k = 0, phase = 0, place = 0; k < kernel;) {
    const bool again = k > 0;
    int64_t m = 0;
    if (again) taps[m++] = y;
    for (; m < 4 && k < kernel; ++m, ++k) {
      taps[m] = spare + phase * n + place;
      for (phase += dilation; phase >= stride; phase -= stride) ++place;
    }
    folds[m](y, taps, places, again);
  }
}

template <class Op, class T> void fold_plane(const PlaneWindows& p, const T* x, T* y, T* scratch) {
  const int64_t k = p.kernel[0], stride = p.stride[0], dilation = p.dilation[0], begin = p.begin[0], left = p.begin[1];
  T *line = scratch, *spare = scratch + p.line, *rows = spare + 2 * (p.line + p.stride[1]);
  const auto pad = [&](T* row) {
    for (int64_t i = 0; i < left; ++i) row[i] = Op::start;
    for (int64_t i = left + p.width; i < p.line; ++i) row[i] = Op::start;
  };
  const bool whole_rows = p.kernel[1] == 1 && p.stride[1] == 1 && left == 0 && p.width == p.places[1];
  Doubled<T> doubled = {};
  if (p.tall > 0) {
    for (int64_t r = 0; r < p.tall; ++r) {
      T* row = rows + r * p.line;
      const int64_t at = r - begin;
      pad(row);
      fold_lines<Op>(row + left, x + at * p.pitch, 0, at >= 0 && at < p.rows ? 1 : 0, p.width);
    }
    const int64_t all = p.tall * p.line;
    doubled = double_windows<Op>(rows, all, k, dilation * p.line, rows + all, all);
  } else {
    pad(line);
  }
  for (int64_t h = 0; h < p.places[0]; ++h, y += p.to_pitch) {
    T* to = whole_rows ? y : line + left;
    if (p.tall > 0) {
      const T* from = doubled.from + h * stride * p.line;
      const T* pair[] = {from, from + doubled.shift};
      fold<Op, 2>(whole_rows ? y : line, pair, whole_rows ? p.width : p.line, false);
    } else {
      const int64_t at = h * stride - begin;  // taps [first, last) lie on the plane
      const int64_t first = at >= 0 ? 0 : (-at + dilation - 1) / dilation, beyond = p.rows - at;
      int64_t last = beyond <= 0 ? 0 : (beyond + dilation - 1) / dilation;
      last = last < k ? last : k;
      fold_lines<Op>(to, x + (at + first * dilation) * p.pitch, dilation * p.pitch, last > first ? last - first : 0, p.width);
    }
    if (!whole_rows) fold_taps<Op>(p, static_cast<const T*>(line), y, spare);
  }
}

/// What lanes have a NaN in either; collected over many registers.
template <class T> struct Odd {
#if defined(__AVX512F__)
  uint32_t found = 0;
  SMELT_INLINE void take(Vector<T> a, Vector<T> b) {
    if constexpr (sizeof(T) == 4)
      found |= _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_UNORD_Q);
    else
      found |= _mm512_cmp_pd_mask(reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), _CMP_UNORD_Q);
  }
  SMELT_INLINE bool any() const { return found != 0; }
#else
  Vector<MaskOf<T>> found = {};
  SMELT_INLINE void take(Vector<T> a, Vector<T> b) { found |= reinterpret_cast<Vector<MaskOf<T>>>((a != a) | (b != b)); }
  SMELT_INLINE bool any() const {
    bool one = false;
    for (int k = 0; k < width<T>; ++k) one |= found[k] != 0;
    return one;
  }
#endif
};

template <class T> bool has_nan(const PlaneWindows& p, const T* x) {
  constexpr int64_t size = width<T>;
  Odd<T> odd;
  bool found = false;
  const bool joined = p.pitch == p.width;
  const int64_t n = joined ? p.rows * p.width : p.width, rows = joined ? 1 : p.rows;
  for (int64_t r = 0; r < rows; ++r, x += p.pitch) {
    int64_t i = 0;
    for (; i + 2 * size <= n; i += 2 * size) odd.take(load_vector(x + i), load_vector(x + i + size));
    for (; i + size <= n; i += size) odd.take(load_vector(x + i), load_vector(x + i));
    if (i < n && n >= size) odd.take(load_vector(x + n - size), load_vector(x + n - size)), i = n;
    for (; i < n; ++i) found |= x[i] != x[i];
  }
  return found || odd.any();
}

template <class T> void max_plane(const PlaneWindows& p, const T* x, T* y, T* scratch) {
  if constexpr (std::is_floating_point_v<T>)
    if (has_nan(p, x)) return fold_plane<LargerOrNan<T>>(p, x, y, scratch);
  fold_plane<Larger<T>>(p, x, y, scratch);
}
template <class T> void sum_plane(const PlaneWindows& p, const T* x, T* y, T* scratch) { fold_plane<Sum<T>>(p, x, y, scratch); }

/// Negative numbers have their other bits turned; what is below -infinity stands for no number at all.
void keys(const uint16_t* __restrict x, int16_t* __restrict to, int64_t n, uint16_t infinity) {
  for (int64_t i = 0; i < n; ++i) {
    const auto magnitude = static_cast<uint16_t>(x[i] & 0x7fff), signs = static_cast<uint16_t>(0 - (x[i] >> 15));
    const auto turned = static_cast<uint16_t>(x[i] ^ (signs & 0x7fff));
    to[i] = static_cast<int16_t>(magnitude > infinity ? magnitude : turned);
  }
}
void values(int16_t* y, int64_t n, uint16_t infinity) {
  for (int64_t i = 0; i < n; ++i) {
    const auto key = static_cast<uint16_t>(y[i]), signs = static_cast<uint16_t>(0 - (key >> 15));
    const auto value = static_cast<uint16_t>(key ^ (signs & 0x7fff));
    y[i] = static_cast<int16_t>(key == 0x8000 ? infinity | 0x8000 : value);
  }
}

template <class T> void scale(T* __restrict y, const T* __restrict factors, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] *= factors[i];
}

constexpr ops::pool::PlaneSimd table = {max_plane<float>,
                                        max_plane<double>,
                                        max_plane<int8_t>,
                                        max_plane<uint8_t>,
                                        max_plane<int16_t>,
                                        sum_plane<float>,
                                        sum_plane<double>,
                                        keys,
                                        values,
                                        scale<float>,
                                        scale<double>};

}  // namespace

const ops::pool::PlaneSimd& pool_planes() { return table; }

}  // namespace smelt::SMELT_ISA
