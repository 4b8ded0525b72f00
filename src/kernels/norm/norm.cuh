// Normalisation of rows, each held in registers by the threads that share it.
//
//   s = x + residual                              rounded to x's type and written to `sum`, where there is a residual
//   y = Program(n, operands…)                     n = (s - mean(s)) * rsqrt(mean((s - mean(s))^2) + epsilon)   centred: LayerNorm
//                                                 n = s * rsqrt(mean(s^2) + epsilon)                           not: RMSNorm
//
//   x, residual, sum, y    [rows…, width], the elements of a row side by side
//   mean, inverse          [rows…]: mean(s) and the factor of n; both are optional
//   operands               [rows…, width] broadcast: gamma, beta and what follows the normalisation
//
// The sums are in float. C.threads threads share a row, and each holds C.vectors vectors of C.vec elements. C.vec divides the
// width, and the vectors of x, residual, sum and y are aligned.
//
// Launch: C.threads * C.rows threads, a block for C.rows rows.
#pragma once

#include "common/cache_hint.cuh"
#include "common/dependent_launch.cuh"
#include "common/expr.cuh"
#include "common/warp.cuh"
#include "kernels/norm/norm.h"
#include "pointwise/view.cuh"

struct Statistics {
  float mean, factor;                                                       // mean: 0 for RMSNorm
};

/// A thread's part of a row.
template <NormConfig C> struct RowFragment {
  float v[C.vectors][C.vec];                                              // (vectors, vec) of (width)

  static __device__ __forceinline__ int lane() { return threadIdx.x % C.threads; }
  /// The first element of vector h, as its place in the row.
  static __device__ __forceinline__ int column(int h) { return (h * C.threads + lane()) * C.vec; }

  /// All C.vectors loads are issued before the first is used. There is no branch: a vector outside the row loads the row's
  /// beginning.
  template <CacheHint Hint, class T>
  static __device__ __forceinline__ void load_raw(Vector<T, C.vec> (&raw)[C.vectors], const T* row) {
#pragma unroll
    for (int h = 0; h < C.vectors; ++h)
      raw[h] = load_hinted<Hint>(reinterpret_cast<const Vector<T, C.vec>*>(row + (column(h) < C.width ? column(h) : 0)));
  }
  template <CacheHint Hint, class T> __device__ __forceinline__ void load(const T* row) {
    Vector<T, C.vec> raw[C.vectors];                                      // (vectors, vec)
    load_raw<Hint>(raw, row);
#pragma unroll
    for (int h = 0; h < C.vectors; ++h)
#pragma unroll
      for (int e = 0; e < C.vec; ++e) v[h][e] = column(h) < C.width ? f32(raw[h].at[e]) : 0.f;
  }
  /// Adds another row, rounds to T, and writes the sum unless `sum` is null.
  template <CacheHint Load, CacheHint Store, class T> __device__ __forceinline__ void add(const T* row, T* sum, bool inside) {
    Vector<T, C.vec> raw[C.vectors];                                      // (vectors, vec)
    load_raw<Load>(raw, row);
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
#pragma unroll
      for (int e = 0; e < C.vec; ++e) {
        raw[h].at[e] = From<T>::f32(v[h][e] + f32(raw[h].at[e]));
        v[h][e] = column(h) < C.width ? f32(raw[h].at[e]) : 0.f;
      }
      if (sum && inside && column(h) < C.width)
        store_hinted<Store>(reinterpret_cast<Vector<T, C.vec>*>(sum + column(h)), raw[h]);
    }
  }
  template <CacheHint Load, class T> __device__ __forceinline__ void add(const T* row) {
    add<Load, CacheHint::none>(row, static_cast<T*>(nullptr), false);
  }
  template <CacheHint Hint, class T> __device__ __forceinline__ void store(T* row, bool inside) const {
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
      Vector<T, C.vec> raw;                                               // (vec) of (width)
#pragma unroll
      for (int e = 0; e < C.vec; ++e) raw.at[e] = From<T>::f32(v[h][e]);
      if (inside && column(h) < C.width) store_hinted<Hint>(reinterpret_cast<Vector<T, C.vec>*>(row + column(h)), raw);
    }
  }
  /// Of the row in v.
  __device__ __forceinline__ Statistics statistics(float epsilon) const {
    constexpr int warps = C.rows * (C.threads < 32 ? 32 : C.threads) / 32;
    __shared__ float exchange[2][warps];
    float mean = 0;
    if constexpr (C.centred) {
      float sum = 0;
#pragma unroll
      for (int h = 0; h < C.vectors; ++h)
#pragma unroll
        for (int e = 0; e < C.vec; ++e) sum += v[h][e];                     // 0 beyond the width
      mean = fold_team<C.threads>(sum, exchange[0], Plus()) / C.width;
    }
    float squares = 0;
#pragma unroll
    for (int h = 0; h < C.vectors; ++h)
#pragma unroll
      for (int e = 0; e < C.vec; ++e) {
        const float d = v[h][e] - mean;
        squares += C.centred && column(h) >= C.width ? 0.f : d * d;
      }
    return {mean, rsqrtf(fold_team<C.threads>(squares, exchange[1], Plus()) / C.width + epsilon)};
  }
  /// v becomes n.
  __device__ __forceinline__ void normalize(const Statistics& s) {
#pragma unroll
    for (int h = 0; h < C.vectors; ++h)
#pragma unroll
      for (int e = 0; e < C.vec; ++e) v[h][e] = (v[h][e] - s.mean) * s.factor;
  }
};

/// T: the elements of x and of the tensors up to the operands. O: the operands, each a View along a row.
template <NormConfig C, class Program, class Others, class... O> struct NormRows;
template <NormConfig C, class Program, class... T, class... O> struct NormRows<C, Program, Types<T...>, O...> {
  static constexpr int tensors = sizeof...(T) + sizeof...(O);
  using At = i64[tensors];                                                  // where the row begins in each tensor
  using Row = RowFragment<C>;
  template <int I> using Element = Pointee<I, Tuple<T*...>>;                // of tensor I
  /// A thread's part of an operand; a vector at a time where it is not prefetched.
  template <class V> struct Operand {
    Vector<typename V::Type, C.vec> v[C.prefetches ? C.vectors : 1];        // (vectors, vec) of (width)
  };
  using Operands = Tuple<Operand<O>...>;
  using Numbers = IndicesTo<sizeof...(O)>;                                  // of the operands

  template <int Rank> static __device__ __forceinline__ void run(const NormArgs<Rank, tensors>& a) {
    constexpr bool rereads = C.traffic == Traffic::reread;
    const u32 number = blockIdx.x * static_cast<u32>(C.rows) + threadIdx.x / static_cast<u32>(C.threads);
    const bool inside = number < a.rows.chunks;
    At at;
    a.rows.template locate<1>(inside ? number : 0, at);

    // Load s. The loads of prefetched operands overlap the sums over it, and where they are constants the kernels before.
    static_assert(C.prefetches || !C.ahead);
    Operands operands;
    if constexpr (C.ahead) load_rows(operands, a, at, Numbers());
    wait_for_kernels_before();
    Row row;                                                                // (vectors, vec) of (width)
    load_sum<rereads ? CacheHint::evict_last : stored(), !rereads>(row, a, at, inside);
    if constexpr (C.prefetches && !C.ahead) load_rows(operands, a, at, Numbers());

    // Reduce, and normalise.
    const Statistics s = row.statistics(a.epsilon);
    if constexpr (rereads) load_sum<CacheHint::evict_first, true>(row, a, at, inside);
    row.normalize(s);
    if (!inside) return;
    if constexpr (C.mean >= 0) store_statistic<C.mean>(a, at, s.mean);
    if constexpr (C.inverse >= 0) store_statistic<C.inverse>(a, at, s.factor);

    // Apply the program, and store.
    using Y = Element<C.y>;
    Y* const y = tensor<C.y>(a);
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) {
      const int column = Row::column(h);
      if (column >= C.width) break;
      if constexpr (!C.prefetches) load_vectors(operands, 0, column, a, at, Numbers());
      Vector<Y, C.vec> out;                                                 // (vec) of (width)
#pragma unroll
      for (int e = 0; e < C.vec; ++e) apply(row.v[h][e], operands, C.prefetches ? h : 0, e, out.at[e], Numbers());
      if constexpr (C.traffic == Traffic::plain) store<C.y_access>(y, at[C.y] + column, 1, C.vec, out);
      else store_hinted<stored()>(reinterpret_cast<Vector<Y, C.vec>*>(y + at[C.y] + column), out);
    }
  }

 private:
  static __device__ constexpr CacheHint stored() {
    return C.traffic == Traffic::streamed ? CacheHint::evict_first : CacheHint::none;
  }
  template <int I, class A> static __device__ __forceinline__ Element<I>* tensor(const A& a) {
    return static_cast<Element<I>*>(a.tensors[I]);
  }
  /// row = s. Writes: also stores `sum`, if there is one.
  template <CacheHint Hint, bool Writes, class A>
  static __device__ __forceinline__ void load_sum(Row& row, const A& a, const At& at, bool inside) {
    constexpr bool writes = Writes && C.sum >= 0;
    row.template load<Hint>(tensor<0>(a) + at[0]);
    if constexpr (C.residual >= 0 && writes)
      row.template add<Hint, stored()>(tensor<C.residual>(a) + at[C.residual], tensor<C.sum>(a) + at[C.sum], inside);
    else if constexpr (C.residual >= 0)
      row.template add<Hint>(tensor<C.residual>(a) + at[C.residual]);
    else if constexpr (writes)                                              // without a residual s is x
      row.template store<stored()>(tensor<C.sum>(a) + at[C.sum], inside);
  }

  template <int I, class A> static __device__ __forceinline__ void store_statistic(const A& a, const At& at, float x) {
    if (Row::lane() == 0) tensor<I>(a)[at[I]] = From<Element<I>>::f32(x);
  }

  /// Vector h of operand I: the row's elements from `column` on.
  template <int I, class V, class A>
  static __device__ __forceinline__ void load_vector(Operand<V>& x, int h, int column, const A& a, const At& at) {
    constexpr int n = C.operands + I;
    load<V::access()>(x.v[h], static_cast<const typename V::Type*>(a.tensors[n]), at[n] + column * V::stride(), V::stride(),
                      C.vec);
  }
  template <int I, class V, class A>
  static __device__ __forceinline__ void load_row(Operand<V>& x, const A& a, const At& at) {
#pragma unroll
    for (int h = 0; h < C.vectors; ++h) load_vector<I, V>(x, h, Row::column(h) < C.width ? Row::column(h) : 0, a, at);
  }
  template <class A, int... I>
  static __device__ __forceinline__ void load_vectors(Operands& x, int h, int column, const A& a, const At& at, Indices<I...>) {
    (load_vector<I, O>(get<I>(x), h, column, a, at), ...);
  }
  template <class A, int... I>
  static __device__ __forceinline__ void load_rows(Operands& x, const A& a, const At& at, Indices<I...>) {
    (load_row<I, O>(get<I>(x), a, at), ...);
  }
  /// y = Program(n, element e of vector h of each operand).
  template <class Y, int... I>
  static __device__ __forceinline__ void apply(float n, const Operands& x, int h, int e, Y& y, Indices<I...>) {
    Program::apply(n, get<I>(x).v[h].at[e]..., y);
  }
};
