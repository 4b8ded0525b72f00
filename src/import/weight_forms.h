// Weights in the forms that kernels read them in, in a plan's own data file beside the weights themselves. The plan's metadata
// has "smelt.plan.forms": the file's name, then for each form a line "offset bytes weight name", the weight by its offset there.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace smelt {

inline constexpr const char* plan_forms_key = "smelt.plan.forms";
inline constexpr int64_t form_alignment = 64;  // bytes: what kernels may take for granted

struct WeightForm {
  Tensor weight;
  std::string name;  // of the form, without an end of a line
  Tensor form;
};

/// Takes the entry out of a plan's metadata. The forms view the mapped file, as bytes [n], and the weights are handles of no bytes
/// that begin where the weight does. A line that does not fit the file is left out, and so are all where the plan is not sealed with
/// that file or no constant views it: what they are forms of would not be known.
std::vector<WeightForm> take_weight_forms(ModelInfo& model);

}  // namespace smelt
