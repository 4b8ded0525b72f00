// Which rewriting a graph went through, as a text.
#pragma once

#include <string>
#include <string_view>

#include "fuse/match/rewrite.h"

namespace smelt::fuse {

/// A hash of all sources that read and rewrite a graph, and of ONNX's version (cmake/Sources.cmake): smelt's version does not tell, for
/// development builds share one.
std::string_view sources();

/// The sources and the options, in a line: a graph that came to rest under one of the same text changes no more.
std::string text_of(const Options& options);

}  // namespace smelt::fuse
