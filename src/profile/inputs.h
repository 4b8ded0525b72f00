// Inputs for timing and comparing: random ones of the right type and range, or the user's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::profile {

/// Fixes symbolic extents of inputs: those of `shapes`, by input name, else 1. The same symbol gets the same number.
/// Throws Error (usage) when `shapes` names no input or contradicts a fixed extent.
std::vector<Shape> resolve_shapes(const std::vector<TensorInfo>& inputs, const std::map<std::string, Shape>& shapes);

/// Reads --inputs: an .npz whose arrays are named after the inputs, or "name:file.npy" / "name:file.raw" pairs (trtexec's
/// --loadInputs), in Plan::inputs() order. Inputs that are not given are random: floats standard normal, bool fair, integers
/// uniform over the rows of the tables that they index (Gather), else 0…9. The same seed gives the same inputs on every machine.
/// Throws Error (usage) for a name that is not an input. `feeds`, by name, take precedence over the files.
std::vector<Tensor> load_inputs(const Plan& plan, const std::vector<std::string>& files,
                                const std::map<std::string, Shape>& shapes, const std::map<std::string, Tensor>& feeds = {},
                                uint64_t seed = 0);

/// "x:1x3x224x224,mask:1x8" → shapes by name. Throws Error (usage) with the part that does not parse.
std::map<std::string, Shape> parse_shapes(const std::string& text);

/// "x:1x3x48x64:320:640,mask:1x8;x:…": profiles between semicolons, an extent that ranges as min:opt:max. Empty where no extent does
/// and there is no semicolon. Throws Error (usage) with the part that does not parse.
std::vector<ShapeProfile> parse_profiles(const std::string& text);

}  // namespace smelt::profile
