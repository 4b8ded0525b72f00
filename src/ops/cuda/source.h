// The source of a kernel, as it is printed: the header that has the kernel's body, the types and constants that it is made for,
// and one entry that calls the body.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "expr/cuda.h"

namespace smelt::ops {

/// The constants that a kernel is made for, of a struct that its argument's header declares, as a template's argument:
/// "DepthwiseConfig{.taps_h = 3, .taps_w = 3}". (A named constant would become a variable of the compiled kernel.)
std::string config_source(std::string_view type, const std::vector<std::pair<std::string_view, int64_t>>& constants);

/// A kernel's entry. It has one parameter, a structure of a header of src/kernels (kernels/common/args.h), and calls one function.
struct KernelEntry {
  std::string name;
  std::string bounds;     // of __launch_bounds__: "256, 2"
  std::string arguments;  // the structure: "RangeArgs<f16>"
  std::string body;       // the function that is called with it: "range<float>"
};

/// static_assert(sizeof(ARGUMENTS) == BYTES);
/// extern "C" __global__ void __launch_bounds__(BOUNDS)
/// NAME(const __grid_constant__ ARGUMENTS args) {
///   BODY(args);
/// }
///
/// `bytes`: of the structure as the host lays it out.
std::string entry_source(const KernelEntry& entry, size_t bytes);

}  // namespace smelt::ops
