// The backend of a GPU that is here.
#pragma once

#include <memory>

#include "device/cuda/device.h"
#include "run/backend.h"

namespace smelt::run {

/// `early`: in its recordings smelt's own kernels begin before the one before them has ended (from sm_90 on).
std::shared_ptr<Backend> cuda_backend(std::shared_ptr<device::cuda::Device> device, bool early);

}  // namespace smelt::run
