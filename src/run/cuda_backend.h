// The backend of a GPU that is here.
#pragma once

#include <memory>

#include "device/cuda/device.h"
#include "run/backend.h"

namespace smelt::run {

std::shared_ptr<Backend> cuda_backend(std::shared_ptr<device::cuda::Device> device);

}  // namespace smelt::run
