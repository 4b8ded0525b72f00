// What candidates are called, whatever their family.
#pragma once

#include <string_view>

namespace smelt::ops {

/// smelt's own kernels in a CUDA graph begin before the one before them has ended (docs/gpu-design.md). No candidate, but named like
/// one; measured by a build where --tactics does not name it.
inline constexpr std::string_view early_launch = "early_launch";
/// Libraries' engines whose results differ from run to run are candidates too, with this behind their name. Off likewise.
inline constexpr std::string_view nondeterministic = "nondeterministic";
/// A convolution written with CuTe (docs/cute.md), which compiles for seconds. Off likewise.
inline constexpr std::string_view cute = "cute";

/// What --tactics takes. ops::offer insists that every family keeps to it.
inline constexpr std::string_view tactic_names[] = {"onednn",    "avx2",       "winograd",       "cpu",      "cuda",
                                                    "hopper",    "walked",     "stem",           "cublaslt", "cudnn",
                                                    "reference", early_launch, nondeterministic, cute};

}  // namespace smelt::ops
