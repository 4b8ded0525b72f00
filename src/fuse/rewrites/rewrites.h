// Every rewrite's match function. What each does is at the top of its file.
#pragma once

#include "fuse/match/rewrite.h"

namespace smelt::fuse {

#define REWRITE(name, what) Outcome name(const Graph& g, NodeId n);
#include "fuse/rewrites/pipeline.def"
#undef REWRITE

/// Files the nodes by what makes them duplicates of each other (Rewrite::sweep).
void file_duplicates(const Graph* g);

// What options put in the place of a rewrite of the pipeline (fuse/run.cpp).

/// concat_conv, also where the Concat's inputs can be written in place.
Outcome concat_conv_everywhere(const Graph& g, NodeId n);
/// Where int8 products by something computed have no kernel.
Outcome quantized_conv_by_constants(const Graph& g, NodeId n);
Outcome quantized_matmul_by_constants(const Graph& g, NodeId n);
Outcome qlinear_operator_by_constants(const Graph& g, NodeId n);
Outcome qlinear_parts_but_softmax(const Graph& g, NodeId n);
Outcome dynamic_convolution(const Graph& g, NodeId n);
/// Where no kernel takes weights in blocks.
Outcome block_matmul_nowhere(const Graph& g, NodeId n);
Outcome conv_epilogue_but_f64(const Graph& g, NodeId n);
Outcome attention_operator_of_known_lengths(const Graph& g, NodeId n);
Outcome widen_convolutions_of_f16(const Graph& g, NodeId n);
Outcome widen_convolutions_nowhere(const Graph& g, NodeId n);

}  // namespace smelt::fuse
