// What candidates are called, whatever their family.
#pragma once

#include <string_view>

namespace smelt::ops {

/// What --tactics takes. ops::offer insists that every family keeps to it.
inline constexpr std::string_view tactic_names[] = {"onednn", "avx2",     "winograd", "cpu",
                                                    "cuda",   "cublaslt", "cudnn",    "reference"};

}  // namespace smelt::ops
