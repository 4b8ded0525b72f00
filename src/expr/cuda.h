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
/// over one element: inputs and outputs in their own types (f16 is __half, bf16 __nv_bfloat16: the kernel includes their
/// headers). `name` must be an identifier. cuda_prelude() must stand before it once.
std::string to_cuda(const Program& p, std::string_view name);

/// The functions that functions.def's code calls besides <cmath>'s, as CUDA source.
std::string_view cuda_prelude();

/// The C++ type that holds a `t` in CUDA source.
std::string_view cuda_type(DType t);

}  // namespace smelt::expr
