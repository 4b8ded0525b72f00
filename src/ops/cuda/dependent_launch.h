// Kernels that may be launched before the kernel before them has ended.
#pragma once

#include <string>

namespace smelt::ops {

/// The source with a wait for the kernels before (common/dependent_launch.cuh) at the beginning of each kernel's body. Headers
/// that it includes are left as they are.
std::string add_dependency_wait(std::string code);

}  // namespace smelt::ops
