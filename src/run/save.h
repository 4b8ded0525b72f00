// The plan as a file: the fused graph as valid ONNX, with what was chosen in its metadata.
#pragma once

#include <filesystem>
#include <string>

#include "smelt/session.h"

namespace smelt {

struct SaveOptions {
  bool copy_weights = false;      // write the weights beside the plan even where it could point at the model's own data file
};

struct Saved {
  std::filesystem::path data;     // the data file written beside the plan; empty: none
  int64_t data_bytes = 0;
};

/// Says before a plan is built what would make save_plan fail: a folder that cannot be written, weights that lie elsewhere.
/// Throws Error as save_plan does.
SMELT_API void check_destination(const std::filesystem::path& model, const std::filesystem::path& plan,
                                 const SaveOptions& options = {});
/// Writes the plan to `path` (and its data file), whole or not at all. Metadata: "smelt.plan.device", and where the plan's shapes
/// are fixed "smelt.plan.tactics", a line a step: node, problem, tactic. The same model, options and cache give the same bytes.
/// Throws Error: usage where weights would have to be copied and `copy_weights` is not set, failed for the disk.
SMELT_API Saved save_plan(const Plan& plan, const std::filesystem::path& path, const SaveOptions& options = {});

}  // namespace smelt
