// The rewrites, in the order in which they run. A round goes through the list once; rounds repeat until nothing changes.
#include "fuse/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr Rewrite rewrites[] = {
    {"dead_code", dead_code},
    {"shape_from_inputs", shape_from_inputs},
    {"merge_duplicates", merge_duplicates},
    {"transpose_of_merged_axes", transpose_of_merged_axes},
    {"recognise_gelu", recognise_gelu},
    {"recognise_silu", recognise_silu},
    {"recognise_hard_swish", recognise_hard_swish},
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
    {"pointwise_region", pointwise_region},
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
