// The backend of a plan for a GPU that is not here (Options::arch): its kernels are compiled, none runs.
#pragma once

#include <memory>
#include <string>

#include "run/backend.h"

namespace smelt::run {

/// Kernels are compiled for `arch`; whatever needs memory throws Error (usage) that names it.
std::shared_ptr<Backend> compile_only_backend(std::string arch);

}  // namespace smelt::run
