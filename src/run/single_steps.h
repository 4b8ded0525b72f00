// Steps of a GPU's plan by themselves, and what a run's recording holds: for counters, which kernels of a CUDA graph have none of.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "smelt/session.h"

namespace smelt::run {

/// Puts these of steps() on the GPU one by one, on what the last run left of their inputs, and waits. Throws Error (usage) where
/// no_single_steps() says why not.
void run_steps(Execution& execution, std::span<const size_t> steps);
/// Why steps cannot be run by themselves: a plan of the processor, steps that the host runs, sizes that depend on data; else empty.
std::string no_single_steps(const Execution& execution);
/// By step: how many kernels, copies and fills it is in the CUDA graph of what is bound; empty where a run is not one graph.
std::vector<size_t> recorded_work(const Execution& execution);
/// The GPU that it runs on; null for a plan of the processor.
std::shared_ptr<device::cuda::Device> device_of(const Execution& execution);

}  // namespace smelt::run
