// A kernel of the processor's as a step of a GPU's plan (Options::allow_fallback): its inputs are copied to the host, its outputs
// back.
#pragma once

#include <memory>

#include "ops/core/tactic.h"
#include "run/backend.h"

namespace smelt::run {

/// The node's kernel, with memory of its own on the host. Its run waits for the stream: it cannot be recorded.
std::unique_ptr<ops::Kernel> through_host_memory(const ops::BoundNode& node, std::unique_ptr<ops::Kernel> kernel,
                                                 std::shared_ptr<Backend> backend);

}  // namespace smelt::run
