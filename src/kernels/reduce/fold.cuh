// The states of reductions. A state takes one value after the other, merges with another thread's, and gives a result. A merge is
// symmetric bit by bit, so all threads that exchange states by butterflies end with the same one.
//
//   value          what the program before the reduction gives
//   result(n)      of n values
#pragma once

#include "common/expr.cuh"

template <class A> struct Sum {
  using Value = A;
  A total = A(0);
  __device__ __forceinline__ void add(A x, u32) { total += x; }
  __device__ __forceinline__ void merge(const Sum& o) { total += o.total; }
  __device__ __forceinline__ A result(i64) const { return total; }
};
template <class A> struct Mean : Sum<A> {
  __device__ __forceinline__ A result(i64 n) const { return smelt_expr::quotient(this->total, A(n)); }
};
template <class A> struct AbsSum : Sum<A> {
  __device__ __forceinline__ void add(A x, u32) { this->total += x < A(0) ? -x : x; }
};
template <class A> struct SquareSum : Sum<A> {
  __device__ __forceinline__ void add(A x, u32) { this->total += x * x; }
};
template <class A> struct Norm2 : SquareSum<A> {
  __device__ __forceinline__ A result(i64) const { return sqrt(this->total); }
};
template <class A> struct LogSum : Sum<A> {
  __device__ __forceinline__ A result(i64) const { return log(this->total); }
};
template <class A> struct Product {
  using Value = A;
  A total = A(1);
  __device__ __forceinline__ void add(A x, u32) { total *= x; }
  __device__ __forceinline__ void merge(const Product& o) { total *= o.total; }
  __device__ __forceinline__ A result(i64) const { return total; }
};

/// Starts from Start::value(), the result of no elements. A NaN stays.
template <class A, class Start> struct Max {
  using Value = A;
  A best = Start::value();
  __device__ __forceinline__ void add(A x, u32) { best = smelt_expr::nan_max(best, x); }
  __device__ __forceinline__ void merge(const Max& o) { best = smelt_expr::nan_max(best, o.best); }
  __device__ __forceinline__ A result(i64) const { return best; }
};
template <class A, class Start> struct Min {
  using Value = A;
  A best = Start::value();
  __device__ __forceinline__ void add(A x, u32) { best = smelt_expr::nan_min(best, x); }
  __device__ __forceinline__ void merge(const Min& o) { best = smelt_expr::nan_min(best, o.best); }
  __device__ __forceinline__ A result(i64) const { return best; }
};

/// log Σ exp(x), the sum kept relative to the largest x so far, so that no exponential overflows.
template <class A> struct LogSumExp {
  using Value = A;
  A top = A(-__int_as_float(0x7f800000)), total = A(0);
  __device__ __forceinline__ void add(A x, u32) { merge({x, A(1)}); }
  __device__ __forceinline__ void merge(const LogSumExp& o) {
    const A most = smelt_expr::nan_max(top, o.top);
    // No exponential where a top is `most` already: infinity less infinity would be NaN.
    total = (top == most ? total : total * exp(top - most)) + (o.top == most ? o.total : o.total * exp(o.top - most));
    top = most;
  }
  __device__ __forceinline__ A result(i64) const { return top + log(total); }
};

/// The place of the largest (Sign 1) or smallest (-1) value: the first such place, or the last. A NaN wins against every number.
template <class A, int Sign, bool Last> struct ArgPlace {
  using Value = A;
  A best = A(0);
  u32 at = 0xffffffffu;                                                     // none yet
  static __device__ __forceinline__ bool before(A a, A b) {
    if (a != a || b != b) return a != a && b == b;
    return Sign > 0 ? a > b : a < b;
  }
  __device__ __forceinline__ void add(A x, u32 place) { merge({x, place}); }
  __device__ __forceinline__ void merge(const ArgPlace& o) {
    if (o.at == 0xffffffffu) return;
    const bool tie = at != 0xffffffffu && !before(o.best, best) && !before(best, o.best);
    if (at == 0xffffffffu || before(o.best, best) || (tie && (Last ? o.at > at : o.at < at))) best = o.best, at = o.at;
  }
  __device__ __forceinline__ i64 result(i64) const { return at; }
};

/// Merges two states, for common/warp.cuh.
struct Merge {
  template <class S> __device__ __forceinline__ S operator()(S a, const S& b) const {
    a.merge(b);
    return a;
  }
};
