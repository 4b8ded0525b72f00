// A group of lines from memory to memory. Real signals of even length are transformed as half as many complex values ("Numerical
// Recipes", Press et al., 12.3: the even elements are the real parts, the odd ones the imaginary parts).
#include "ops/signal/simd/fourier.h"

#include "ops/signal/simd/lines.h"
#include "ops/signal/simd/passes.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::LineForm;
using ops::LineTransform;

/// Twice the spectrum of `length` real values from the transform z of the half as many complex ones.
template <class T> void split(const LineTransform<T>& t, Split<T> z, Split<T> y) {
  const int64_t half = t.length / 2;
  for (int64_t k = 0; k <= half / 2; ++k) {
    const Complex<T> a = z[k], b = conjugate(z[k == 0 ? 0 : half - k]);
    const Complex<T> even = a + b, odd = turned(b - a) * root(t.half_turn + 2 * k);
    const Complex<T> near = even + odd, far = even - odd;
    y.set(k, t.inverse ? conjugate(near) : near);
    y.set(half - k, t.inverse ? far : conjugate(far));
  }
  for (int64_t k = half + 1; k < t.written; ++k) y.set(k, conjugate(y[t.length - k]));
}

/// The reverse: values whose inverse transform is that of the spectrum x, which the first and the last value's imaginary parts do
/// not count for.
template <class T> void join(const LineTransform<T>& t, Split<T> x, Split<T> z) {
  const int64_t half = t.length / 2;
  z.set(0, {x[0].re + x[half].re, x[0].re - x[half].re});
  for (int64_t k = 1; k <= half / 2; ++k) {
    const Complex<T> a = x[k], b = conjugate(x[half - k]);
    const Complex<T> even = a + b, odd = turned((a - b) * conjugate(root(t.half_turn + 2 * k)));
    z.set(k, even + odd);
    z.set(half - k, conjugate(even - odd));
  }
}

/// Numbers that the buffer holds before the transform.
template <class T> int64_t needed(const LineTransform<T>& t) {
  switch (t.form) {
    case LineForm::real: return t.length;
    case LineForm::complex: return 2 * t.length;
    default: return 2 * (t.length / 2 + 1);
  }
}

template <class H, class T>
void transform(const LineTransform<T>& t, const void* const* from, void* const* to, int64_t count, T* a) {
  constexpr int64_t n = width<T>;
  constexpr size_t bytes = sizeof(Register<T>);
  const H* in[n];
  H* out[n];
  for (int64_t l = 0; l < n; ++l) {  // the last one again where there are fewer
    in[l] = static_cast<const H*>(from[l < count ? l : count - 1]);
    out[l] = static_cast<H*>(to[l < count ? l : count - 1]);
  }
  T* b = a + t.registers * n;
  int64_t held = t.read * t.parts_in;
  if (t.parts_in == 1 && t.form != LineForm::real) {
    load_lines(t, in, count, b);
    const Split<T> wide(a, false);
    for (int64_t i = 0; i < held; ++i) wide.set(i, {read(b + i * n), Register<T>{}});
    held *= 2;
  } else {
    load_lines(t, in, count, a);
  }
  if (held < needed(t)) __builtin_memset(a + held * n, 0, static_cast<size_t>(needed(t) - held) * bytes);

  T* result = nullptr;
  if (t.form == LineForm::real) {
    T* z = fft(t.fft, false, a, b);
    result = z == a ? b : a;
    split(t, Split<T>(z, false), Split<T>(result, false));
  } else if (t.form == LineForm::complex) {
    result = fft(t.fft, t.inverse, a, b);
  } else if (t.form == LineForm::half) {
    join(t, Split<T>(a, false), Split<T>(b, false));
    result = fft(t.fft, true, b, a);
  } else {
    const Split<T> x(a, false);
    for (int64_t k = t.length / 2 + 1; k < t.length; ++k) x.set(k, conjugate(x[t.length - k]));
    const T* y = fft(t.fft, true, a, b);
    result = y == a ? b : a;
    for (int64_t i = 0; i < t.length; ++i) __builtin_memcpy(result + i * n, y + 2 * i * n, bytes);
  }
  store_lines(t, result, out, count);
}

void transform_floats(const LineTransform<float>& t, const void* const* from, void* const* to, int64_t count, float* buffers) {
  with_float_type(t.kind, [&]<class H>(const H*) { transform<H>(t, from, to, count, buffers); });
}

void transform_doubles(const LineTransform<double>& t, const void* const* from, void* const* to, int64_t count, double* buffers) {
  transform<double>(t, from, to, count, buffers);
}

constexpr ops::FourierSimd table = {width<float>, width<double>, transform_floats, transform_doubles};

}  // namespace

const ops::FourierSimd& fourier_simd() { return table; }

}  // namespace smelt::SMELT_ISA
