// Compiled kernels inside a plan's file: what each problem runs with, and the cubins of that. In the plan's metadata:
// "smelt.plan.gpu", the architecture and the number of multiprocessors that kernels were chosen for ("sm_87 16");
// "smelt.plan.tactics"; and an entry "smelt.plan.kernel.KEY" for each cubin, as base64 of what device::cuda::to_file writes.
#pragma once

#include <map>
#include <span>
#include <string>

#include "device/cuda/cubins.h"
#include "ops/cuda/gpu.h"
#include "smelt/session.h"
#include "tune/tuner.h"

namespace smelt::plan {

class Planner;

struct EmbeddedKernels {
  std::string arch;  // empty: there are none
  int multiprocessors = 0;
  tune::PinnedChoices choices;
  device::cuda::Cubins cubins;
};

/// Takes them out of a model's metadata. A damaged entry is left out, with a warning.
EmbeddedKernels read_kernels(std::map<std::string, std::string>& metadata);
/// Writes them into metadata, all but "smelt.plan.tactics".
void write_kernels(const EmbeddedKernels& kernels, std::map<std::string, std::string>& metadata);

/// The kernels that these steps of a GPU's plan run with, compiled anew or taken from the GPU's store. The graph is planned once
/// more, for its fixed shapes, with the same choices.
EmbeddedKernels kernels_of(const Planner& planner, std::span<const StepInfo> steps);

/// Puts the cubins into the GPU's store where they are of its architecture, and has kernels laid out for the multiprocessors that
/// they were made for, so that these and no others are asked for; true then. Otherwise empties `kernels`, with a warning where
/// there were any.
bool take_kernels(EmbeddedKernels& kernels, ops::Gpu& gpu);

}  // namespace smelt::plan
