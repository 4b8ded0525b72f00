// What the driver has of clusters beside their size: apart from driver.h, which every kernel's launch reads.
#pragma once

#include "device/cuda/abi/driver.h"

namespace smelt::device::cuda::abi {

inline constexpr auto function_non_portable_cluster =
    static_cast<FunctionAttribute>(14);  // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED

#define SMELT_CUDA_CLUSTERS(X) \
  X(most_active, cuOccupancyMaxActiveClusters, int* clusters, Function function, const LaunchConfig* config)

struct Clusters {
#define X(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_CLUSTERS(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
