// Every rewrite's match function; pipeline.cpp puts them in order. What each does is at the top of its file.
#pragma once

#include "fuse/rewrite.h"

namespace smelt::fuse {

Outcome dead_code(const Graph& g, NodeId n);

Outcome shape_from_inputs(const Graph& g, NodeId n);
Outcome merge_duplicates(const Graph& g, NodeId n);
Outcome transpose_of_merged_axes(const Graph& g, NodeId n);
Outcome recognise_gelu(const Graph& g, NodeId n);
Outcome recognise_silu(const Graph& g, NodeId n);
Outcome recognise_hard_swish(const Graph& g, NodeId n);
Outcome recognise_rms_norm(const Graph& g, NodeId n);
Outcome recognise_layer_norm(const Graph& g, NodeId n);
Outcome recognise_group_norm(const Graph& g, NodeId n);
Outcome norm_operator(const Graph& g, NodeId n);
Outcome recognise_rotary(const Graph& g, NodeId n);
Outcome attention(const Graph& g, NodeId n);
Outcome residual_norm(const Graph& g, NodeId n);
Outcome modulated_norm(const Graph& g, NodeId n);
Outcome norm_epilogue(const Graph& g, NodeId n);
Outcome recognise_swiglu(const Graph& g, NodeId n);
Outcome matmul_epilogue(const Graph& g, NodeId n);
Outcome pointwise_region(const Graph& g, NodeId n);

}  // namespace smelt::fuse
