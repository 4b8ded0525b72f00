// The rewrites, in the order in which they run. A round goes through the list once; rounds repeat until nothing changes.
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr Rewrite rewrites[] = {
    {"dead_code", dead_code, "nodes that nothing reads"},
    {"shape_from_inputs", shape_from_inputs, "shape arithmetic in terms of the inputs' extents"},
    {"fold_constants", fold_constants, "nodes whose inputs are all constant"},
    {"remove_identity", remove_identity, "nodes that change nothing"},
    {"merge_casts", merge_casts, "casts in a row"},
    {"merge_transposes", merge_transposes, "transposes in a row"},
    {"transpose_of_ones", transpose_of_ones, "transposes that only move extents of 1"},
    {"transpose_of_merged_axes", transpose_of_merged_axes, "transposes that move axes together"},
    {"merge_reshapes", merge_reshapes, "reshapes in a row"},
    {"merge_duplicates", merge_duplicates, "the same node twice"},
    {"explicit_pads", explicit_pads, "auto_pad as numbers"},
    {"pad_into_conv", pad_into_conv, "Pad into a convolution"},
    {"fold_batch_norm", fold_batch_norm, "BatchNormalization into a convolution's weights"},
    {"conv_bias", conv_bias, "bias into a convolution"},
    {"batch_norm", batch_norm, "BatchNormalization as one multiply-add"},
    {"qlinear_parts", qlinear_parts, "ONNX Runtime's QLinear forms of plain operators"},
    {"quantized_concat", quantized_concat, "Concat between Quantize and Dequantize"},
    {"quantized_movement", quantized_movement, "data movement between Quantize and Dequantize"},
    {"quantized_conv", quantized_conv, "Conv between Quantize and Dequantize, in int8"},
    {"quantized_matmul", quantized_matmul, "MatMul or Gemm between Quantize and Dequantize, in int8"},
    {"qlinear_operator", qlinear_operator, "QLinearConv and QLinearMatMul"},
    {"qlinear_epilogue", qlinear_epilogue, "what follows an int8 product"},
    {"fold_dequantized", fold_dequantized, "dequantised constants"},
    {"recognise_gelu", recognise_gelu, "GELU from its parts"},
    {"recognise_silu", recognise_silu, "SiLU from its parts"},
    {"recognise_hard_swish", recognise_hard_swish, "hard-swish from its parts"},
    {"conv_epilogue", conv_epilogue, "activation and residual into a convolution"},
    {"concat_conv", concat_conv_if_copied, "Concat read in place by convolutions"},
    {"recognise_rms_norm", recognise_rms_norm, "RMSNorm from its parts"},
    {"recognise_layer_norm", recognise_layer_norm, "LayerNorm from its parts"},
    {"recognise_group_norm", recognise_group_norm, "GroupNorm from its parts"},
    {"norm_operator", norm_operator, "normalisation operators"},
    {"recognise_rotary", recognise_rotary, "rotary embedding from its parts"},
    {"attention_operator", attention_operator, "ONNX's Attention"},
    {"attention", attention, "attention from its parts"},
    {"attention_keys", attention_keys, "transposed keys of an attention as rows"},
    {"residual_norm", residual_norm, "residual into a normalisation"},
    {"modulated_norm", modulated_norm, "scale and shift into a normalisation"},
    {"norm_epilogue", norm_epilogue, "what follows a normalisation"},
    {"recognise_swiglu", recognise_swiglu, "SwiGLU: gate, SiLU and product"},
    {"matmul_epilogue", matmul_epilogue, "bias, activation and residual into a matrix product"},
    {"split_dequantize", split_dequantize, "one Dequantize for each reader"},
    {"reduce_region", reduce_region, "pointwise nodes around a reduction"},
    {"pointwise_region", pointwise_region, "chains of pointwise nodes"},
    {"concat_in_place", concat_in_place, "Concat whose inputs are written in place"},
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
