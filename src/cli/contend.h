// smelt profile A --with B: the models together, each against itself alone, and what helps.
#pragma once

#include <string>
#include <vector>

#include "cli/common.h"

namespace smelt::cli {

struct Contention {
  std::vector<std::string> with;
  double rate = 0, seconds = 3;
  double p99_us = 0;          // that the first model is to keep; 0: as low as can be
  std::string trace, report;  // files to write; empty: none
};

/// Prints the tables, and writes the files. Throws Error: usage for a GPU's plans; failed where a model's process ends.
int contend(const ModelArguments& model, const Contention& c, size_t top);

}  // namespace smelt::cli
