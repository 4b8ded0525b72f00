// smelt profile A --with B: the models together, each against itself alone, and what helps.
#pragma once

#include <string>
#include <vector>

#include "cli/common.h"

namespace smelt::cli {

struct Contention {
  std::vector<std::string> with;
  double rate = 0, seconds = 3;
};

/// Prints the tables. Throws Error: usage for a GPU's plans; failed where a model's process ends.
int contend(const ModelArguments& model, const Contention& c, size_t top);

}  // namespace smelt::cli
