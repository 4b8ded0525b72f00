// The machine that kernels are chosen for: the processor, a GPU that is here, or one of an architecture that is not.
#pragma once

#include "ops/core/machine.h"
#include "plan/embedded_kernels.h"
#include "smelt/session.h"

namespace smelt::plan {

/// The machine that a plan of these options is for. `tf32`: its model asks for products of f32 that round their operands so.
/// `embedded`: what the model brings for a GPU, taken where it is for that GPU and emptied where it is not. Throws Error: usage
/// for options that are wrong, unsupported where the GPU, its driver or its compiler is too old or missing.
ops::Machine machine_for(const Options& options, bool tf32, EmbeddedKernels& embedded);

}  // namespace smelt::plan
