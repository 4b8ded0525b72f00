// A program's tensors as a thread's vectors of their elements have them.
#pragma once

#include "common/tuple.cuh"
#include "pointwise/walk.cuh"

/// Of a view whose elements say where a row's columns lie behind it (load_indexed).
constexpr int at_an_index = 2;

/// Elements of type T. Access: how load and store take them, or at_an_index; Stride: elements from one of a vector to the next, where the kernel
/// is compiled for it.
template <class T, int Access, i64 Stride = Access> struct View {
  using Type = T;
  static __device__ constexpr int access() { return Access; }
  static __device__ constexpr i64 stride() { return Stride; }
};
