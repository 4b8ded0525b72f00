// A program's tensors as a thread's vectors of their elements have them.
#pragma once

#include "common/tuple.cuh"
#include "pointwise/walk.cuh"

/// Elements of type T. Access: how load and store take them; Stride: elements from one of a vector to the next, where the kernel
/// is compiled for it.
template <class T, int Access, i64 Stride = Access> struct View {
  using Type = T;
  static __device__ constexpr int access() { return Access; }
  static __device__ constexpr i64 stride() { return Stride; }
};
