// The arguments of softmax/loss.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// T, I: the types of the scores and of the labels; void on the host. Null: weights that are all 1, results that nobody reads.
template <class T, class I> struct LossArgs {
  const T* x;                   // [outer, classes, inner]
  const I* labels;              // [outer, inner]
  const T* weights;             // [classes]
  T* logarithms;                // [outer, classes, inner]
  T* each;                      // [outer, inner]
  float *loss, *weight;         // [outer, inner]
  i64 classes, inner, ignored;
  u32 samples;                  // outer * inner
  bool ignores;
};
static_assert(sizeof(LossArgs<void, void>) == 88);

template <class T> struct LossSumArgs {
  const float *loss, *weight;   // [samples]
  T* y;                         // []
  u32 samples;
  bool mean;
};
static_assert(sizeof(LossSumArgs<void>) == 32);

}  // namespace smelt::kernels
