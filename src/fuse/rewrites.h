// Every rewrite's match function; pipeline.cpp puts them in order. What each does is at the top of its file.
#pragma once

#include "fuse/rewrite.h"

namespace smelt::fuse {

Outcome dead_code(const Graph& g, NodeId n);

}  // namespace smelt::fuse
