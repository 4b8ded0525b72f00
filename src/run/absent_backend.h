// A GPU that is not here: plans are made for it, none runs.
#pragma once

#include <memory>
#include <string>

#include "run/backend.h"

namespace smelt::run {

/// Kernels are compiled for `arch`; whatever needs memory throws Error (usage) that names it.
std::shared_ptr<Backend> absent_backend(std::string arch);

}  // namespace smelt::run
