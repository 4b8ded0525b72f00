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

/// A kernel's parameter: a tensor ("const f16*"), or an argument, which the kernel takes as a constant that stays where it is
/// (const __grid_constant__) unless its type says "const".
struct Parameter {
  std::string type, name;
};

/// "const f16*", "f16*": of a tensor that is read, of one that is written.
inline std::string read_only(DType t) { return fmt::format("const {}*", expr::cuda_type(t)); }
inline std::string writable(DType t) { return fmt::format("{}*", expr::cuda_type(t)); }

/// extern "C" __global__ void __launch_bounds__(BOUNDS)
/// NAME(TYPE* name, const __grid_constant__ TYPE name, …) {
///   BODY(name, …);
/// }
std::string entry_source(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                         std::string_view body);

/// The same of another statement.
std::string entry_of_statement(std::string_view name, std::string_view bounds, const std::vector<Parameter>& parameters,
                               std::string_view statement);

/// The same of parameters as they are declared: "const float* x, u32 count".
std::string entry_of_text(std::string_view name, std::string_view bounds, std::string_view parameters,
                          std::string_view statement);
inline std::string entry_of_text(std::string_view name, unsigned threads, std::string_view parameters,
                                 std::string_view statement) {
  return entry_of_text(name, std::to_string(threads), parameters, statement);
}

}  // namespace smelt::ops
