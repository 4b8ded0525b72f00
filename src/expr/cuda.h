// The CUDA printer: a Program as CUDA C++ source. Nothing of a model's text reaches it: names are numbers, functions are rows of
// functions.def.
#pragma once

#include <string>
#include <string_view>

#include "expr/program.h"

namespace smelt::expr {

/// A device function
///
///   struct NAME {
///     static __device__ __forceinline__ void apply(T0 v0, …, U0& out0, …);
///   };
///
/// over one element: inputs and outputs in their own types. `name` must be an identifier. The kernel includes "common/expr.cuh".
std::string to_cuda(const Program& p, std::string_view name);

/// The C++ type that holds a `t` in CUDA source (src/kernels/common/types.cuh).
std::string_view cuda_type(DType t);

}  // namespace smelt::expr
