// The type that elements of a floating-point type are computed in: double for double, float for the others.
#pragma once

#include "common/convert.cuh"

template <class T> struct ComputingOf { using Type = float; };
template <> struct ComputingOf<double> { using Type = double; };
template <class T> using Computing = typename ComputingOf<T>::Type;

template <class T> __device__ __forceinline__ Computing<T> computing(T x) { return widened<Computing<T>>(x); }
