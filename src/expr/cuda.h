// The CUDA printer writes a Program as CUDA C++ source. No text of a model reaches the source: values have numbers for names,
// and functions are rows of functions.def.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "expr/program.h"

namespace smelt::expr {

/// Returns the source of a device function:
///
///   struct NAME {
///     static __device__ __forceinline__ void apply(T0 v0, …, U0& out0, …);
///   };
///
/// It computes one element; v0, v1, … are the inputs and out0, out1, … the outputs, each in its own type. `name` must be an
/// identifier. The kernel must include "common/expr.cuh". `most`: of each input, what its elements' magnitudes are at most;
/// inputs beyond its end may be anything, NaN too. Throws Error for a type that cuda_type does not know.
std::string to_cuda(const Program& p, std::string_view name, std::span<const double> most = {});

/// The C++ type of a `t` in CUDA source: "float", "f16", … (src/kernels/common/types.cuh). Throws Error for types that programs
/// neither compute in nor load.
std::string_view cuda_type(DType t);

}  // namespace smelt::expr
