// The plan as a file: the fused graph as valid ONNX, with what was chosen in its metadata.
#pragma once

#include <filesystem>
#include <string>

#include "smelt/session.h"

namespace smelt {

struct SaveOptions {
  bool copy_weights = false;   // write the weights beside the plan even where it could point at the model's own data file
  bool packed_weights = true;  // the processor's: write weights that the data file has in its kernels' forms, too
  bool embed_kernels = false;  // write the compiled kernels of a GPU's plan into it, so that running it needs no compiler
};

struct Saved {
  std::filesystem::path data;                // the data file written beside the plan; empty: none
  int64_t data_bytes = 0, packed_bytes = 0;  // all, and those of packed weights among them
  int64_t kernels = 0, kernel_bytes = 0;     // cubins in the plan
};

/// Says before a plan is built what would make save_plan fail: a folder that cannot be written, weights that lie elsewhere,
/// kernels of a plan for the processor. Throws Error as save_plan does.
SMELT_API void check_destination(const std::filesystem::path& model, const std::filesystem::path& plan, const Options& options,
                                 const SaveOptions& save = {});
/// Writes the plan to `path` (and its data file), whole or not at all. Metadata: "smelt.plan.device", and where the plan's shapes
/// are fixed "smelt.plan.tactics", a line a step: node, problem, tactic; kernels as plan/embedded_kernels.h says. The same model,
/// options and cache give the same bytes. Throws Error: usage where weights would have to be copied and `copy_weights` is not
/// set, and where `embed_kernels` is and the plan has no kernels or its inputs no fixed shapes; failed for the disk.
SMELT_API Saved save_plan(const Plan& plan, const std::filesystem::path& path, const SaveOptions& options = {});

}  // namespace smelt
