// smelt profile A --with B: the models together, each against itself alone, and what helps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "report/contention.h"

namespace smelt::cli {

struct Contention {
  std::vector<std::string> with;
  double rate = 0, seconds = 3;
  double p99_us = 0;          // that the first model is to keep; 0: as low as can be
  std::string trace, report;  // files to write; empty: none
  bool counters = true;       // of a GPU: what each kernel takes of it is counted, where it can be
  bool remedies = true;       // what helps is measured too
};

/// Prints the tables, and writes the files. Throws Error (failed) where a model's process ends.
int contend(const ModelArguments& model, const Contention& c, size_t top);
/// The others at a half of what they reached, then at a quarter and an eighth where that does not keep the target either: has each run, which
/// adds it to `found`. Nothing where the user gave a rate.
struct Paced {
  std::string name, how;
  double rate = 0;  // requests a second
};
void pace_others(const Contention& c, const report::Contended& found, const std::function<void(const Paced&)>& run);
/// Fills in what models on one GPU's streams do to each other: all but names and p99_us. Throws Error (unsupported) for models
/// whose run is not one CUDA graph, and without CUPTI.
void contend_on_gpu(const ModelArguments& model, const Contention& c, report::Contended& found);

}  // namespace smelt::cli
