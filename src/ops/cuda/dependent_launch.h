// Kernels that may be launched before the kernel before them has ended.
#pragma once

#include <string>
#include <string_view>

namespace smelt::ops {

/// What a source begins with whose kernels wait themselves, behind what may come first: copies of constants.
inline constexpr std::string_view waits_itself = "// Its kernels wait by themselves.\n";

/// The source with a wait for the kernels before (common/dependent_launch.cuh) at the beginning of each kernel's body, unless it
/// begins with waits_itself. Headers that it includes are left as they are.
std::string add_dependency_wait(std::string code);

}  // namespace smelt::ops
