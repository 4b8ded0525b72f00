// What a GPU can do at best, measured by kernels that only move memory or only multiply (kernels/ceilings).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/ceilings.h"
#include "device/cuda/cubins.h"
#include "device/cuda/device.h"

namespace smelt::device::cuda {

/// Memory by arrays of 1 GiB (less where less is free), arithmetic of f32 by multiply-adds, of f16, bf16 and i8 by tensor cores,
/// all from registers. Takes about `seconds` and the memory for two arrays. `progress` as of the processor's. Best of the
/// repetitions. Throws Error without NVRTC, or without memory.
Ceilings measure_ceilings(const std::shared_ptr<Device>& device, CubinStore& cubins, double seconds = 3,
                          const std::function<void(const std::string&)>& progress = {});

/// The kernels that it measures by; those that an architecture lacks are left out of its cubin.
Source ceiling_kernels();

}  // namespace smelt::device::cuda
