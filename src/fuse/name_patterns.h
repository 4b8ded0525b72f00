// Nodes by patterns of names, as --keep-fp32 takes them.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace smelt::fuse {

/// Whether the text matches a pattern, in which * stands for any characters and ? for one.
bool matches(std::string_view pattern, std::string_view text);
/// Whether the pattern is of the node's name, of an ONNX node that it stands for, or of a module scope of one.
bool is_called(const Graph& g, const Node& n, std::string_view pattern);

}  // namespace smelt::fuse
