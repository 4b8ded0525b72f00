// What a plan carries that was written with its kernels: what each problem runs with, and the cubins of that. In the plan's
// metadata: "smelt.plan.gpu", the architecture and the number of multiprocessors that kernels were chosen for ("sm_87 16");
// "smelt.plan.tactics"; and an entry "smelt.plan.kernel.KEY" for each cubin, as base64 of what device::cuda::to_file writes.
#pragma once

#include <map>
#include <string>

#include "device/cuda/cubins.h"
#include "ops/cuda/gpu.h"
#include "smelt/session.h"
#include "tune/tuner.h"

namespace smelt::run {

struct Carried {
  std::string arch;  // empty: nothing is carried
  int multiprocessors = 0;
  tune::PinnedChoices choices;
  device::cuda::Cubins cubins;
};

/// Out of a model's metadata, which loses it. A damaged entry is said and left out.
Carried read_carried(std::map<std::string, std::string>& metadata);
void write_carried(const Carried& carried, std::map<std::string, std::string>& metadata);

/// The kernels that the plan's steps run with. What comes after the first node whose outputs' sizes depend on data is not known:
/// that is said. Throws Error (usage) for a plan of the processor, and where its inputs have no fixed shapes.
Carried carried_by(const Plan& plan);

/// Puts the cubins into the GPU's store where they are of its architecture, and lays kernels out for the multiprocessors that
/// they were made for, so that these and no others are asked for; true then. Else nothing is left of the choices, and where there was
/// something it is said.
bool take_kernels(Carried& carried, ops::Gpu& gpu);

}  // namespace smelt::run
