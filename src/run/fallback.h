// A step of a GPU's plan that the processor runs, because no kernel for the GPU takes it and the user allowed that
// (Options::allow_fallback): its inputs are copied to the host, its outputs back.
#pragma once

#include <memory>

#include "run/backend.h"
#include "run/bound.h"

namespace smelt::run {

/// The processor's kernel with the lowest estimate for these tensors, with memory of its own on the host. Throws Error
/// (unsupported) as ops::offer does. `problem` and `tactic` get their names. Its run waits for the stream: it cannot be recorded.
std::unique_ptr<ops::Kernel> fallback_kernel(const ops::BoundNode& node, int threads, std::shared_ptr<Backend> backend,
                                             std::string& problem, std::string& tactic);

}  // namespace smelt::run
