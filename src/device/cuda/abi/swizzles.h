// Swizzles of tensor maps beside driver.h's, which all of the GPU's code includes.
#pragma once

#include "device/cuda/abi/driver.h"

namespace smelt::device::cuda::abi {

inline constexpr auto tensor_map_swizzle_64 = static_cast<TensorMapSwizzle>(2);

}  // namespace smelt::device::cuda::abi
