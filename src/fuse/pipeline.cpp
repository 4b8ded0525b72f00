// The rewrites, in the order in which they run. A round goes through the list once; rounds repeat until nothing changes.
#include "fuse/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr Rewrite rewrites[] = {
    {"dead_code", dead_code},
    {"shape_from_inputs", shape_from_inputs},
    {"fold_constants", fold_constants},
    {"remove_identity", remove_identity},
    {"merge_casts", merge_casts},
    {"merge_transposes", merge_transposes},
    {"transpose_of_ones", transpose_of_ones},
    {"transpose_of_merged_axes", transpose_of_merged_axes},
    {"merge_reshapes", merge_reshapes},
    {"merge_duplicates", merge_duplicates},
    {"explicit_pads", explicit_pads},
    {"pad_into_conv", pad_into_conv},
    {"fold_batch_norm", fold_batch_norm},
    {"conv_bias", conv_bias},
    {"batch_norm", batch_norm},
    {"quantized_concat", quantized_concat},
    {"quantized_movement", quantized_movement},
    {"quantized_conv", quantized_conv},
    {"quantized_matmul", quantized_matmul},
    {"qlinear_operator", qlinear_operator},
    {"qlinear_epilogue", qlinear_epilogue},
    {"fold_dequantized", fold_dequantized},
    {"recognise_gelu", recognise_gelu},
    {"recognise_silu", recognise_silu},
    {"recognise_hard_swish", recognise_hard_swish},
    {"conv_epilogue", conv_epilogue},
    {"concat_conv", concat_conv_if_copied},
    {"recognise_rms_norm", recognise_rms_norm},
    {"recognise_layer_norm", recognise_layer_norm},
    {"recognise_group_norm", recognise_group_norm},
    {"norm_operator", norm_operator},
    {"recognise_rotary", recognise_rotary},
    {"attention", attention},
    {"residual_norm", residual_norm},
    {"modulated_norm", modulated_norm},
    {"norm_epilogue", norm_epilogue},
    {"recognise_swiglu", recognise_swiglu},
    {"matmul_epilogue", matmul_epilogue},
    {"split_dequantize", split_dequantize},
    {"reduce_region", reduce_region},
    {"pointwise_region", pointwise_region},
    {"concat_in_place", concat_in_place},
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
