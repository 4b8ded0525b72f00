// Values of different types, found by number: a kernel's tensors, the vectors of a program's operands.
//
//   Tuple<A, B> t = tuple_of(a, b);     get<0>(t) is a, get<1>(t) b
//   IndicesTo<2>       Indices<0, 1>, to expand such numbers from
#pragma once

template <int... I> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> {
  using Type = Indices<I...>;
};
template <int N> using IndicesTo = typename MakeIndices<N>::Type;

template <class... T> struct Types {};
/// TypeAt<I, T…>::Type: type I of them.
template <int I, class... T> struct TypeAt;
template <int I, class First, class... T> struct TypeAt<I, First, T...> : TypeAt<I - 1, T...> {};
template <class First, class... T> struct TypeAt<0, First, T...> {
  using Type = First;
};

template <int I, class T> struct TupleElement {
  T value;
};
template <class Numbers, class... T> struct TupleElements;
template <int... I, class... T> struct TupleElements<Indices<I...>, T...> : TupleElement<I, T>... {};

template <class... T> struct Tuple : TupleElements<IndicesTo<sizeof...(T)>, T...> {};
template <class... T> __device__ __forceinline__ Tuple<T...> tuple_of(T... x) { return {{{x}...}}; }
template <int I, class T> __device__ __forceinline__ T& get(TupleElement<I, T>& e) { return e.value; }
template <int I, class T> __device__ __forceinline__ const T& get(const TupleElement<I, T>& e) { return e.value; }

template <int I, class T> __device__ T pointee(const TupleElement<I, T*>&);
/// What element I of a tuple of pointers points to.
template <int I, class Pointers> using Pointee = decltype(pointee<I>(Pointers()));
