// Fourier transforms of lines that fit into shared memory: Stockham's passes between two buffers there.
//
//   x, y           lines of elements, one or two numbers each
//   roots          every twiddle of a pass is a root of unity of the whole length
//   first, second  [lines][values] complex, in shared memory
//
// A block does a few lines. An inverse transform is the forward one with the real and the imaginary parts exchanged at both ends.
// Real signals of even length are transformed as half as many complex values.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "kernels/fourier/fourier.h"

template <class C> struct alignas(2 * sizeof(C)) Complex { C re, im; };

template <class C> __device__ __forceinline__ Complex<C> operator+(Complex<C> a, Complex<C> b) { return {a.re + b.re, a.im + b.im}; }
template <class C> __device__ __forceinline__ Complex<C> operator-(Complex<C> a, Complex<C> b) { return {a.re - b.re, a.im - b.im}; }
template <class C> __device__ __forceinline__ Complex<C> operator*(Complex<C> a, Complex<C> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class C> __device__ __forceinline__ Complex<C> times(Complex<C> a, C b) { return {a.re * b, a.im * b}; }
/// i a.
template <class C> __device__ __forceinline__ Complex<C> turned(Complex<C> a) { return {-a.im, a.re}; }
template <class C> __device__ __forceinline__ Complex<C> conjugate(Complex<C> a) { return {a.re, -a.im}; }
template <class C> __device__ __forceinline__ Complex<C> exchanged(Complex<C> a) { return {a.im, a.re}; }

/// b[k] = Σ a[j] e^(-2 pi i j k / radix), in place.
template <class C> __device__ __forceinline__ void butterfly(Complex<C> (&a)[2]) {
  const Complex<C> sum = a[0] + a[1];
  a[1] = a[0] - a[1], a[0] = sum;
}
template <class C> __device__ __forceinline__ void butterfly(Complex<C> (&a)[3]) {
  const Complex<C> sum = a[1] + a[2], less = times(turned(a[1] - a[2]), C(0.86602540378443864676)), rest = a[0] - times(sum, C(0.5));
  a[0] = a[0] + sum, a[1] = rest - less, a[2] = rest + less;
}
template <class C> __device__ __forceinline__ void butterfly(Complex<C> (&a)[4]) {
  const Complex<C> even = a[0] + a[2], odd = a[1] + a[3], less = a[0] - a[2], turn = turned(a[1] - a[3]);
  a[0] = even + odd, a[1] = less - turn, a[2] = even - odd, a[3] = less + turn;
}
template <class C> __device__ __forceinline__ void butterfly(Complex<C> (&a)[5]) {
  const C cos1 = C(0.30901699437494742410), cos2 = C(-0.80901699437494742410), sin1 = C(0.95105651629515357212),
          sin2 = C(0.58778525229247312917);
  const Complex<C> sum1 = a[1] + a[4], sum2 = a[2] + a[3], less1 = turned(a[1] - a[4]), less2 = turned(a[2] - a[3]);
  const Complex<C> near = a[0] + times(sum1, cos1) + times(sum2, cos2), far = a[0] + times(sum1, cos2) + times(sum2, cos1);
  const Complex<C> turn1 = times(less1, sin1) + times(less2, sin2), turn2 = times(less1, sin2) - times(less2, sin1);
  a[0] = a[0] + sum1 + sum2, a[1] = near - turn1, a[2] = far - turn2, a[3] = far + turn2, a[4] = near + turn1;
}

/// One pass: values n / radix apart become their transform, Run apart then.
template <u32 Radix, u32 Run, u32 N, u32 Lines, class C>
__device__ __forceinline__ void fourier_pass(const Complex<C>* x, Complex<C>* y, const Complex<C>* roots) {
  constexpr u32 apart = N / Radix;
  if constexpr (Radix <= 5) {
    for (u32 w = threadIdx.x; w < Lines * apart; w += blockDim.x) {
      const u32 line = w / apart * N, b = w % apart, group = b / Run, i = b % Run;
      Complex<C> a[Radix];
#pragma unroll
      for (u32 k = 0; k < Radix; ++k) a[k] = x[line + b + apart * k];
      butterfly(a);
#pragma unroll
      for (u32 k = 0; k < Radix; ++k) {
        const bool turns = k > 0 && Run * Radix < N;                        // in the last pass none does
        y[line + i + Run * (Radix * group + k)] = turns ? a[k] * roots[group * k * Run] : a[k];
      }
    }
  } else {                                                                  // straight from the definition
    for (u32 w = threadIdx.x; w < Lines * N; w += blockDim.x) {
      const u32 line = w / N * N, k = w % N / apart, b = w % apart, group = b / Run, i = b % Run;
      Complex<C> sum = x[line + b];
      for (u32 j = 1; j < Radix; ++j) sum = sum + x[line + b + apart * j] * roots[j * k % Radix * apart];
      y[line + i + Run * (Radix * group + k)] = sum * roots[group * k * Run];
    }
  }
  __syncthreads();
}

/// All passes, from `x` with `y` beside it; returns which of the two has the result.
template <u32 Run, u32 N, u32 Lines, class C>
__device__ __forceinline__ Complex<C>* fourier_passes(Complex<C>* x, Complex<C>*, const Complex<C>*) { return x; }
template <u32 Run, u32 N, u32 Lines, u32 Radix, u32... Radices, class C>
__device__ __forceinline__ Complex<C>* fourier_passes(Complex<C>* x, Complex<C>* y, const Complex<C>* roots) {
  fourier_pass<Radix, Run, N, Lines>(x, y, roots);
  return fourier_passes<Run * Radix, N, Lines, Radices...>(y, x, roots);
}

/// The elements of a line.
template <FourierConfig K, class T, class C> struct FourierLine {
  const FourierArgs<T, C>& a;
  const T* x;

  __device__ __forceinline__ FourierLine(const FourierArgs<T, C>& args, u32 line) : a(args) {
    const u32 outer = a.inner.quotient(line), inner = line - outer * a.inner.divisor;
    x = a.x + outer * a.from_outer + inner * a.from_inner;
  }
  /// Zeros behind the last one.
  __device__ __forceinline__ Complex<C> operator[](u32 i) const {
    if (i >= K.read) return {C(0), C(0)};
    C weight = static_cast<C>(a.scale);
    if constexpr (K.windowed) weight *= widened<C>(a.window[i]);
    const T* p = x + i * a.step_in;
    return {widened<C>(p[0]) * weight, K.parts_in == 2 ? widened<C>(p[K.parts_in - 1]) * weight : C(0)};
  }
  /// Complex value i of those that are transformed.
  __device__ __forceinline__ Complex<C> value(u32 i, const Complex<C>* half_turn) const {
    const FourierLine& e = *this;
    if constexpr (K.form == FourierForm::real) {
      return {e[2 * i].re, e[2 * i + 1].re};
    } else if constexpr (K.form == FourierForm::half) {
      const Complex<C> p = e[i], q = conjugate(e[K.values - i]);
      if (i == 0) return {p.re - q.re, p.re + q.re};                        // exchanged: inverse
      return exchanged(p + q + turned((p - q) * conjugate(half_turn[i])));
    } else if constexpr (K.form == FourierForm::odd_half) {
      return exchanged(i <= K.length / 2 ? e[i] : conjugate(e[K.length - i]));
    } else {
      return K.inverse ? exchanged(e[i]) : e[i];
    }
  }
};

/// Element i of what is stored of a line, of the transform z.
template <FourierConfig K, class C>
__device__ __forceinline__ Complex<C> fourier_result(const Complex<C>* z, u32 i, const Complex<C>* half_turn) {
  if constexpr (K.form == FourierForm::real) {
    const bool mirrored = i > K.values;
    const u32 k = mirrored ? K.length - i : i;
    const Complex<C> p = z[k % K.values], q = conjugate(z[(K.values - k) % K.values]);
    const Complex<C> v = p + q + turned(q - p) * half_turn[k];
    return mirrored != K.inverse ? conjugate(v) : v;
  } else if constexpr (K.form == FourierForm::half) {
    return {i % 2 ? z[i / 2].re : z[i / 2].im, C(0)};
  } else {
    return K.inverse ? exchanged(z[i]) : z[i];
  }
}

template <FourierConfig K, u32... Radices, class T, class C>
__device__ __forceinline__ void fourier(const FourierArgs<T, C>& a) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr u32 values = K.values, lines = K.lines;
  auto* const first = reinterpret_cast<Complex<C>*>(memory);
  const auto* roots = reinterpret_cast<const Complex<C>*>(a.roots);
  const auto* half_turn = reinterpret_cast<const Complex<C>*>(a.half_turn);
  const u32 begin = blockIdx.x * lines;
  for (u32 w = threadIdx.x; w < lines * values; w += blockDim.x) {
    const u32 line = K.across ? w % lines : w / values, i = K.across ? w / lines : w % values;
    if (begin + line < a.count) first[line * values + i] = FourierLine<K, T, C>(a, begin + line).value(i, half_turn);
    else first[line * values + i] = {C(0), C(0)};
  }
  __syncthreads();
  const Complex<C>* z = fourier_passes<1, values, lines, Radices...>(first, first + lines * values, roots);
  for (u32 w = threadIdx.x; w < lines * K.written; w += blockDim.x) {
    const u32 line = K.across ? w % lines : w / K.written, i = K.across ? w / lines : w % K.written;
    if (begin + line >= a.count) continue;
    const u32 outer = a.inner.quotient(begin + line), inner = begin + line - outer * a.inner.divisor;
    T* y = a.y + outer * a.to_outer + inner * a.to_inner + i * a.step_out;
    const Complex<C> v = fourier_result<K>(z + line * values, i, half_turn);
    y[0] = narrowed<T>(v.re);
    if constexpr (K.parts_out == 2) y[1] = narrowed<T>(v.im);
  }
}
