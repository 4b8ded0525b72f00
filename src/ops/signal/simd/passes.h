// The passes of a fast Fourier transform, over registers that hold a value of each line. For *.simd.cpp sources only (isa.h).
//
// An inverse transform is the forward one with the real and the imaginary parts exchanged at both ends: `Split` says which
// of the two registers of a value is the real part.
#pragma once

#include "expr/simd/vec.h"
#include "ops/signal/simd/fourier.h"

namespace smelt::SMELT_ISA {

#ifdef __AVX2__
using DoubleRegister = __m256d;
#else
using DoubleRegister = __m128d;
#endif
template <class T> struct RegisterOf;
template <> struct RegisterOf<float> { using Type = FloatRegister; };
template <> struct RegisterOf<double> { using Type = DoubleRegister; };
template <class T> using Register = typename RegisterOf<T>::Type;
template <class T> inline constexpr int64_t width = sizeof(Register<T>) / sizeof(T);

template <class T> SMELT_INLINE Register<T> broadcast(T x) { return Register<T>{} + x; }

/// A complex value of each line, of numbers of type T.
template <class T> struct Complex { Register<T> re, im; };
template <class T> SMELT_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> SMELT_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> SMELT_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> SMELT_INLINE Complex<T> times(Complex<T> a, Register<T> b) { return {a.re * b, a.im * b}; }
/// i a.
template <class T> SMELT_INLINE Complex<T> turned(Complex<T> a) { return {-a.im, a.re}; }
template <class T> SMELT_INLINE Complex<T> conjugate(Complex<T> a) { return {a.re, -a.im}; }

/// The complex values of a buffer.
template <class T> struct Split {
  T *re, *im;
  Split(T* buffer, bool exchanged) : re(buffer + (exchanged ? width<T> : 0)), im(buffer + (exchanged ? 0 : width<T>)) {}
  SMELT_INLINE Complex<T> operator[](int64_t i) const {
    const int64_t at = i * 2 * width<T>;
    Complex<T> v;
    __builtin_memcpy(&v.re, re + at, sizeof(Register<T>));
    __builtin_memcpy(&v.im, im + at, sizeof(Register<T>));
    return v;
  }
  SMELT_INLINE void set(int64_t i, Complex<T> v) const {
    const int64_t at = i * 2 * width<T>;
    __builtin_memcpy(re + at, &v.re, sizeof(Register<T>));
    __builtin_memcpy(im + at, &v.im, sizeof(Register<T>));
  }
};

/// The transform of `radix` values in place; b[k] = Σ a[j] e^(-2 pi i j k / radix).
template <int radix, class T> SMELT_INLINE void butterfly(Complex<T> (&a)[radix]) {
  if constexpr (radix == 2) {
    const Complex<T> sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if constexpr (radix == 3) {
    const Register<T> half = broadcast(T(0.5)), sine = broadcast(T(0.86602540378443864676));
    const Complex<T> sum = a[1] + a[2], less = times(turned(a[1] - a[2]), sine), rest = a[0] - times(sum, half);
    a[0] = a[0] + sum;
    a[1] = rest - less;
    a[2] = rest + less;
  } else if constexpr (radix == 4) {
    const Complex<T> even = a[0] + a[2], odd = a[1] + a[3], less = a[0] - a[2], turn = turned(a[1] - a[3]);
    a[0] = even + odd;
    a[1] = less - turn;
    a[2] = even - odd;
    a[3] = less + turn;
  } else {
    static_assert(radix == 5);
    const Register<T> cos1 = broadcast(T(0.30901699437494742410)), cos2 = broadcast(T(-0.80901699437494742410)),
                      sin1 = broadcast(T(0.95105651629515357212)), sin2 = broadcast(T(0.58778525229247312917));
    const Complex<T> sum1 = a[1] + a[4], sum2 = a[2] + a[3], less1 = turned(a[1] - a[4]), less2 = turned(a[2] - a[3]);
    const Complex<T> near = a[0] + times(sum1, cos1) + times(sum2, cos2), far = a[0] + times(sum1, cos2) + times(sum2, cos1);
    const Complex<T> turn1 = times(less1, sin1) + times(less2, sin2), turn2 = times(less1, sin2) - times(less2, sin1);
    a[0] = a[0] + sum1 + sum2;
    a[1] = near - turn1;
    a[2] = far - turn2;
    a[3] = far + turn2;
    a[4] = near + turn1;
  }
}

template <class T> SMELT_INLINE Complex<T> root(const T* w) { return {broadcast(w[0]), broadcast(w[1])}; }

template <int radix, bool last, class T> void pass(const ops::FftPass<T>& p, Split<T> x, Split<T> y) {
  for (int64_t g = 0; g < p.groups; ++g) {
    Complex<T> w[radix];
    if constexpr (!last)
      for (int k = 1; k < radix; ++k) w[k] = root(p.twiddles + (g * (radix - 1) + k - 1) * 2);
    for (int64_t i = 0; i < p.run; ++i) {
      Complex<T> a[radix];
      for (int k = 0; k < radix; ++k) a[k] = x[i + p.run * (g + p.groups * k)];
      butterfly(a);
      for (int k = 0; k < radix; ++k) y.set(i + p.run * (radix * g + k), last || k == 0 ? a[k] : a[k] * w[k]);
    }
  }
}

/// Any odd radix, straight from the definition: values k and radix - k share the products.
template <class T> void odd_pass(const ops::FftPass<T>& p, Split<T> x, Split<T> y) {
  const auto radix = static_cast<int>(p.radix), half = radix / 2;
  const int64_t apart = p.run * p.groups;
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t i = 0; i < p.run; ++i) {
      const int64_t from = i + p.run * g, to = i + p.run * radix * g;
      const Complex<T> first = x[from];
      Complex<T> sums[ops::largest_radix / 2], lesses[ops::largest_radix / 2], total = first;
      for (int j = 1; j <= half; ++j) {
        const Complex<T> a = x[from + apart * j], b = x[from + apart * (radix - j)];
        sums[j - 1] = a + b;
        lesses[j - 1] = turned(a - b);
        total = total + sums[j - 1];
      }
      y.set(to, total);
      for (int k = 1; k <= half; ++k) {
        Complex<T> even = first, odd = {Register<T>{}, Register<T>{}};
        for (int j = 1, at = k; j <= half; ++j, at = at + k < radix ? at + k : at + k - radix) {
          even = even + times(sums[j - 1], broadcast(p.roots[2 * at]));
          odd = odd + times(lesses[j - 1], broadcast(p.roots[2 * at + 1]));
        }
        const Complex<T> near = even + odd, far = even - odd;
        const T* w = p.twiddles ? p.twiddles + g * (radix - 1) * 2 : nullptr;
        y.set(to + p.run * k, w ? near * root(w + (k - 1) * 2) : near);
        y.set(to + p.run * (radix - k), w ? far * root(w + (radix - k - 1) * 2) : far);
      }
    }
}

template <int radix, class T> void pass(const ops::FftPass<T>& p, Split<T> x, Split<T> y) {
  p.twiddles ? pass<radix, false>(p, x, y) : pass<radix, true>(p, x, y);
}

/// x[i] *= w[i].
template <class T> void multiply(Split<T> x, const T* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x.set(i, x[i] * root(w + 2 * i));
}

/// Transforms the values of x, with y beside it; returns which of the two has the result.
template <class T> T* fft(const ops::Fft<T>& f, bool inverse, T* x, T* y) {
  if (f.convolution) {
    const int64_t n = f.n, m = f.convolution->n;
    multiply(Split<T>(x, inverse), f.chirp, n);
    __builtin_memset(x + n * 2 * width<T>, 0, static_cast<size_t>(m - n) * 2 * sizeof(Register<T>));
    T* there = fft(*f.convolution, inverse, x, y);
    multiply(Split<T>(there, inverse), f.spectrum, m);
    T* back = fft(*f.convolution, !inverse, there, there == x ? y : x);
    multiply(Split<T>(back, inverse), f.chirp, n);
    return back;
  }
  for (int64_t i = 0; i < f.count; ++i) {
    const Split<T> from(x, inverse), to(y, inverse);
    switch (f.passes[i].radix) {
      case 2: pass<2>(f.passes[i], from, to); break;
      case 3: pass<3>(f.passes[i], from, to); break;
      case 4: pass<4>(f.passes[i], from, to); break;
      case 5: pass<5>(f.passes[i], from, to); break;
      default: odd_pass(f.passes[i], from, to);
    }
    T* done = y;
    y = x;
    x = done;
  }
  return x;
}

}  // namespace smelt::SMELT_ISA
