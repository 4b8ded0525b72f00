// Every rewrite's match function; pipeline.cpp puts them in order. What each does is at the top of its file.
#pragma once

#include "fuse/match/rewrite.h"

namespace smelt::fuse {

Outcome explicit_pads(const Graph& g, NodeId n);
Outcome concat_in_place(const Graph& g, NodeId n);
Outcome concat_conv(const Graph& g, NodeId n);
/// concat_conv where the Concat's inputs cannot be written in place.
Outcome concat_conv_if_copied(const Graph& g, NodeId n);
Outcome quantized_conv(const Graph& g, NodeId n);
Outcome quantized_matmul(const Graph& g, NodeId n);
/// Where int8 products by something computed have no kernel.
Outcome quantized_conv_by_constants(const Graph& g, NodeId n);
Outcome quantized_matmul_by_constants(const Graph& g, NodeId n);
Outcome qlinear_operator_by_constants(const Graph& g, NodeId n);
Outcome quantized_movement(const Graph& g, NodeId n);
Outcome quantized_concat(const Graph& g, NodeId n);
Outcome split_dequantize(const Graph& g, NodeId n);
Outcome qlinear_operator(const Graph& g, NodeId n);
Outcome qlinear_parts(const Graph& g, NodeId n);
Outcome qlinear_epilogue(const Graph& g, NodeId n);
Outcome fold_dequantized(const Graph& g, NodeId n);
Outcome dead_code(const Graph& g, NodeId n);
Outcome conv_epilogue(const Graph& g, NodeId n);
Outcome conv_bias(const Graph& g, NodeId n);
Outcome pad_into_conv(const Graph& g, NodeId n);
Outcome batch_norm(const Graph& g, NodeId n);
Outcome fold_batch_norm(const Graph& g, NodeId n);
Outcome transpose_of_ones(const Graph& g, NodeId n);
Outcome merge_reshapes(const Graph& g, NodeId n);
Outcome merge_transposes(const Graph& g, NodeId n);
Outcome merge_casts(const Graph& g, NodeId n);
Outcome remove_identity(const Graph& g, NodeId n);
Outcome fold_constants(const Graph& g, NodeId n);

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
Outcome attention_operator(const Graph& g, NodeId n);
Outcome attention_keys(const Graph& g, NodeId n);
Outcome residual_norm(const Graph& g, NodeId n);
Outcome modulated_norm(const Graph& g, NodeId n);
Outcome norm_epilogue(const Graph& g, NodeId n);
Outcome recognise_swiglu(const Graph& g, NodeId n);
Outcome matmul_epilogue(const Graph& g, NodeId n);
Outcome reduce_region(const Graph& g, NodeId n);
Outcome pointwise_region(const Graph& g, NodeId n);

}  // namespace smelt::fuse
