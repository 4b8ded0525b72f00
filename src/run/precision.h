// --precision: an fp32 model made to compute in fp16 or bf16.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace smelt::run {

/// Makes the graph's f32 nodes read and write `precision` ("fp16", "bf16"; "tf32" changes nothing here: it is a mode of
/// GPU products, and a processor computes them in fp32; "" nothing either). Inputs and outputs keep their types, with Casts behind
/// and before them. Constants are converted once; finite values beyond fp16's range become its largest (a mask of -3.4e38 stays
/// finite). Left in f32: nodes whose name, or one of whose sources' names or scopes, matches a pattern of `keep` (* any
/// text, ? one character), and operators that ONNX defines for f32 only or whose result type an attribute names. Returns
/// how many nodes were converted. Throws Error (usage) for another precision and for a pattern that matches no node.
int convert_precision(Graph& g, std::string_view precision, const std::vector<std::string>& keep);

/// "*" any text, "?" one character, the rest itself.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace smelt::run
