#include "ops/norm/simd/rows.h"

#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"
#include "expr/simd/vector.h"

namespace smelt::SMELT_ISA {
namespace {

/// How elements H are read, computed and written, a register at a time.
template <class H> struct Element {
  using Number = float;
  using V = F32;
  static constexpr int64_t width = lanes;
  static SMELT_INLINE V all(double x) { return splat(static_cast<float>(x)); }
  static SMELT_INLINE V read(const H* p, int64_t count) { return get(p, count); }
  static SMELT_INLINE V read_number(const float* p, int64_t count) { return get(p, count); }
  static SMELT_INLINE void write(H* p, V v, int64_t count) { put(p, v, count); }
  static SMELT_INLINE V first(V v, int64_t count) { return first_or(v, count, F32(0)); }
  static SMELT_INLINE double total(V v) { return static_cast<double>(sum(v)); }
};

template <> struct Element<double> {
  using Number = double;
  using V = Vector<double>;
  static constexpr int64_t width = SMELT_ISA::width<double>;
  static SMELT_INLINE V all(double x) { return splat_vector(x); }
  static SMELT_INLINE V read(const double* p, int64_t count) {
    if (count == width) return load_vector(p);
    V v = {};
    for (int64_t i = 0; i < count; ++i) v[i] = p[i];
    return v;
  }
  static SMELT_INLINE V read_number(const double* p, int64_t count) { return read(p, count); }
  static SMELT_INLINE void write(double* p, V v, int64_t count) {
    if (count == width) return store_vector(p, v);
    for (int64_t i = 0; i < count; ++i) p[i] = v[i];
  }
  static SMELT_INLINE V first(V v, int64_t count) {
    for (int64_t i = count; i < width; ++i) v[i] = 0;
    return v;
  }
  static SMELT_INLINE double total(V v) {
    double t = 0;
    for (int i = 0; i < width; ++i) t += v[i];
    return t;
  }
};

/// The sum of f(x). What a register adds up is bounded: beyond so many elements the sum of f32 goes on in double.
template <class H, class F> SMELT_INLINE double total_of(const H* x, int64_t n, F f) {
  using E = Element<H>;
  constexpr int64_t w = E::width, most = 256 * w;
  double total = 0;
  for (int64_t from = 0; from < n; from += most) {
    const int64_t end = n - from < most ? n : from + most;
    typename E::V s[4] = {E::all(0), E::all(0), E::all(0), E::all(0)};
    int64_t i = from;
    for (; i + 4 * w <= end; i += 4 * w)
      for (int u = 0; u < 4; ++u) s[u] = s[u] + f(E::read(x + i + u * w, w));
    for (; i + w <= end; i += w) s[0] = s[0] + f(E::read(x + i, w));
    if (i < end) s[1] = s[1] + E::first(f(E::read(x + i, end - i)), end - i);  // f(0) is not 0
    total += E::total((s[0] + s[1]) + (s[2] + s[3]));
  }
  return total;
}

template <class H> void moments(const void* x_, int64_t n, bool centre, double* mean, double* variance) {
  using V = typename Element<H>::V;
  const H* x = static_cast<const H*>(x_);
  *mean = centre ? total_of(x, n, [](V v) { return v; }) / static_cast<double>(n) : 0;
  const V middle = Element<H>::all(*mean);
  *variance = total_of(x, n, [&](V v) { return (v - middle) * (v - middle); }) / static_cast<double>(n);
}

/// y[i] = end((x[i] - mean) · factor, i, count)
template <class H, class F> SMELT_INLINE void each(const void* x_, int64_t n, double mean, double factor, void* y_, F end) {
  using E = Element<H>;
  const H* x = static_cast<const H*>(x_);
  H* y = static_cast<H*>(y_);
  const typename E::V middle = E::all(mean), times = E::all(factor);
  int64_t i = 0;
  for (; i + E::width <= n; i += E::width)
    E::write(y + i, end((E::read(x + i, E::width) - middle) * times, i, E::width), E::width);
  if (i < n) E::write(y + i, end((E::read(x + i, n - i) - middle) * times, i, n - i), n - i);
}

template <class H> void shift(const void* x, int64_t n, double mean, double factor, double offset, void* y) {
  using V = typename Element<H>::V;
  const V plus = Element<H>::all(offset);
  each<H>(x, n, mean, factor, y, [&](V v, int64_t, int64_t) { return v + plus; });
}

template <class H>
void scale(const void* x, int64_t n, double mean, double factor, const void* gamma_, const void* beta_, void* y) {
  using E = Element<H>;
  using V = typename E::V;
  const auto *gamma = static_cast<const typename E::Number*>(gamma_), *beta = static_cast<const typename E::Number*>(beta_);
  each<H>(x, n, mean, factor, y, [&](V v, int64_t i, int64_t count) {
    if (gamma) v = v * E::read_number(gamma + i, count);
    if (beta) v = v + E::read_number(beta + i, count);
    return v;
  });
}

void short_rows(const float* x, int64_t rows, int64_t n, const ops::ShortRows::Parameters& p, int64_t first, float* y) {
  const F32 part = splat(1 / static_cast<float>(n));
  alignas(64) float turned[ops::ShortRows::most * lanes], means[lanes], factors[lanes], offsets[lanes];
  int64_t channel = first % p.channels;
  for (int64_t from = 0; from < rows; from += lanes, x += lanes * n, y += lanes * n) {
    const int64_t count = rows - from < lanes ? rows - from : lanes;
    for (int64_t r = 0; r < lanes; ++r) {
      const float* row = x + (r < count ? r : 0) * n;
      for (int64_t i = 0; i < n; ++i) turned[i * lanes + r] = row[i];
      factors[r] = p.factor[channel], offsets[r] = p.offset[channel];
      if (++channel == p.channels) channel = 0;
    }
    F32 sum = F32(0), squares = F32(0);
    for (int64_t i = 0; i < n; ++i) sum = sum + load(turned + i * lanes);
    const F32 mean = sum * part;
    for (int64_t i = 0; i < n; ++i) {
      const F32 beside = load(turned + i * lanes) - mean;
      squares = squares + beside * beside;
    }
    store(means, mean);
    store(factors, load(factors) / sqrt(squares * part + splat(p.epsilon)));
    for (int64_t r = 0; r < count; ++r) {
      const F32 middle = splat(means[r]), times = splat(factors[r]), plus = splat(offsets[r]);
      const float* row = x + r * n;
      int64_t i = 0;
      for (; i + lanes <= n; i += lanes) store(y + r * n + i, (load(row + i) - middle) * times + plus);
      if (i < n) store_first(y + r * n + i, (load_first(row + i, n - i) - middle) * times + plus, n - i);
    }
  }
}

/// The sum of f(x) over a short row, by lanes.
template <class H, class F> SMELT_INLINE F32 lanes_of(const H* x, int64_t n, F f) {
  F32 s = F32(0), t = F32(0);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) s = s + f(load(x + i)), t = t + f(load(x + i + lanes));
  if (i + lanes <= n) s = s + f(load(x + i)), i += lanes;
  if (i < n) t = t + first_or(f(load_first(x + i, n - i)), n - i, F32(0));
  return s + t;
}

/// Of register r its sum in lane r.
SMELT_INLINE F32 sums_of(F32 (&v)[lanes]) {
  transpose(v);
  SMELT_UNROLL
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  return v[0];
}

template <class H> void beside(const void* x_, int64_t rows, int64_t n, const ops::NormRow::Beside& p, void* y_) {
  const H* x = static_cast<const H*>(x_);
  H* y = static_cast<H*>(y_);
  const F32 part = splat(1 / static_cast<float>(n)), epsilon = splat(p.epsilon), guard = splat(p.guard);
  alignas(64) float means[lanes] = {}, factors[lanes];
  for (int64_t from = 0; from < rows; from += lanes, x += lanes * n, y += lanes * n) {
    const int64_t count = rows - from < lanes ? rows - from : lanes;
    F32 sums[lanes];
    for (int64_t r = count; r < lanes; ++r) sums[r] = F32(0);
    if (p.centre) {
      for (int64_t r = 0; r < count; ++r) sums[r] = lanes_of(x + r * n, n, [](F32 v) { return v; });
      store(means, sums_of(sums) * part);
      for (int64_t r = count; r < lanes; ++r) sums[r] = F32(0);
    }
    for (int64_t r = 0; r < count; ++r) {
      const F32 mean = splat(means[r]);
      sums[r] = lanes_of(x + r * n, n, [&](F32 v) { return (v - mean) * (v - mean); });
    }
    store(factors, splat(1.0f) / (sqrt(sums_of(sums) * part + epsilon) + guard));
    if (p.means) put(p.means + from, load(means), count);
    if (p.inverses) put(p.inverses + from, load(factors), count);
    for (int64_t r = 0; r < count; ++r) {
      const F32 mean = splat(means[r]), factor = splat(factors[r]);
      for_registers(n, [&](int64_t i, int64_t some) {
        F32 v = (get(x + r * n + i, some) - mean) * factor;
        if (p.gamma) v = v * get(p.gamma + i, some);
        if (p.beta) v = v + get(p.beta + i, some);
        put(y + r * n + i, v, some);
      });
    }
  }
}

template <class H> constexpr ops::NormRow row = {moments<H>, shift<H>, scale<H>, beside<H>};
constexpr ops::NormRow row_of_doubles = {moments<double>, shift<double>, scale<double>, nullptr};
constexpr ops::NormRows table = {row<float>, row<HalfBits>, row<BFloatBits>, row_of_doubles, {short_rows}};

}  // namespace

const ops::NormRows& norm_rows() { return table; }

}  // namespace smelt::SMELT_ISA
