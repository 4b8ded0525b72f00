// The declarations of src/device/cuda/abi/cudnn.h against NVIDIA's header, where the build's Python has it.
#include <gtest/gtest.h>

#include "device/cuda/abi/cudnn.h"
#include "same_function.h"

#if __has_include(<cudnn_graph.h>) && __has_include(<crt/host_defines.h>)
#define SMELT_HAS_CUDNN
#endif

#ifdef SMELT_HAS_CUDNN
#include <cudnn_graph.h>

namespace smelt::device::cuda::abi {
namespace {

#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Dnn::name)>::value, #symbol);
SMELT_CUDNN(X)
#undef X

TEST(CudnnAbi, numbers_are_nvidias) {
  SAME(dnn_success, CUDNN_STATUS_SUCCESS);
  SAME(dnn_not_supported, CUDNN_STATUS_NOT_SUPPORTED);
  SAME(dnn_internal_error, CUDNN_STATUS_INTERNAL_ERROR);
  SAME(dnn_f32, CUDNN_DATA_FLOAT);
  SAME(dnn_f64, CUDNN_DATA_DOUBLE);
  SAME(dnn_f16, CUDNN_DATA_HALF);
  SAME(dnn_i8, CUDNN_DATA_INT8);
  SAME(dnn_i32, CUDNN_DATA_INT32);
  SAME(dnn_u8, CUDNN_DATA_UINT8);
  SAME(dnn_bf16, CUDNN_DATA_BFLOAT16);
  SAME(dnn_i64, CUDNN_DATA_INT64);
  SAME(dnn_pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SAME(dnn_convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  SAME(dnn_engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SAME(dnn_engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SAME(dnn_heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  SAME(dnn_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SAME(dnn_operation_convolution, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  SAME(dnn_operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SAME(dnn_operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  SAME(dnn_variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  SAME(dnn_tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SAME(dnn_is_handle, CUDNN_TYPE_HANDLE);
  SAME(dnn_is_type, CUDNN_TYPE_DATA_TYPE);
  SAME(dnn_is_bool, CUDNN_TYPE_BOOLEAN);
  SAME(dnn_is_i64, CUDNN_TYPE_INT64);
  SAME(dnn_is_float, CUDNN_TYPE_FLOAT);
  SAME(dnn_is_double, CUDNN_TYPE_DOUBLE);
  SAME(dnn_is_pointer, CUDNN_TYPE_VOID_PTR);
  SAME(dnn_is_convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE);
  SAME(dnn_is_heuristic_mode, CUDNN_TYPE_HEUR_MODE);
  SAME(dnn_is_numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
  SAME(dnn_is_pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
  SAME(dnn_is_descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  SAME(dnn_pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
  SAME(dnn_pointwise_precision, CUDNN_ATTR_POINTWISE_MATH_PREC);
  SAME(dnn_convolution_type, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  SAME(dnn_convolution_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  SAME(dnn_convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  SAME(dnn_convolution_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  SAME(dnn_convolution_post_paddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  SAME(dnn_convolution_pre_paddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  SAME(dnn_convolution_axes, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  SAME(dnn_heuristic_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
  SAME(dnn_heuristic_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  SAME(dnn_heuristic_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  SAME(dnn_config_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
  SAME(dnn_plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  SAME(dnn_plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  SAME(dnn_plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  SAME(dnn_forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  SAME(dnn_forward_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  SAME(dnn_forward_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  SAME(dnn_forward_w, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  SAME(dnn_forward_x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  SAME(dnn_forward_y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  SAME(dnn_operation_pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  SAME(dnn_operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  SAME(dnn_operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  SAME(dnn_operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  SAME(dnn_graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  SAME(dnn_graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  SAME(dnn_tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  SAME(dnn_tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
  SAME(dnn_tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
  SAME(dnn_tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
  SAME(dnn_tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  SAME(dnn_tensor_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  SAME(dnn_pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  SAME(dnn_pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  SAME(dnn_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  SAME(dnn_engine_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  SAME(dnn_engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  SAME(dnn_cross_correlation, CUDNN_CROSS_CORRELATION);
  SAME(dnn_mode_instant, CUDNN_HEUR_MODE_INSTANT);
  SAME(dnn_mode_b, CUDNN_HEUR_MODE_B);
  SAME(dnn_mode_fallback, CUDNN_HEUR_MODE_FALLBACK);
  SAME(dnn_mode_a, CUDNN_HEUR_MODE_A);
  SAME(dnn_add, CUDNN_POINTWISE_ADD);
  SAME(dnn_mul, CUDNN_POINTWISE_MUL);
  SAME(dnn_min, CUDNN_POINTWISE_MIN);
  SAME(dnn_max, CUDNN_POINTWISE_MAX);
  SAME(dnn_div, CUDNN_POINTWISE_DIV);
  SAME(dnn_sub, CUDNN_POINTWISE_SUB);
  SAME(dnn_relu, CUDNN_POINTWISE_RELU_FWD);
  SAME(dnn_tanh, CUDNN_POINTWISE_TANH_FWD);
  SAME(dnn_sigmoid, CUDNN_POINTWISE_SIGMOID_FWD);
  SAME(dnn_gelu, CUDNN_POINTWISE_GELU_FWD);
  SAME(dnn_swish, CUDNN_POINTWISE_SWISH_FWD);
  SAME(dnn_gelu_tanh, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD);
  SAME(dnn_uses_tensor_cores, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  SAME(dnn_rounds_inputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  SAME(dnn_rounds_sums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  SAME(dnn_uses_fft, CUDNN_NUMERICAL_NOTE_FFT);
  SAME(dnn_not_deterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  SAME(dnn_winograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
  EXPECT_GE(dnn_most_notes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  EXPECT_GE(dnn_most_notes, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  EXPECT_GE(dnn_most_knobs, CUDNN_KNOB_TYPE_COUNTS);
  SAME(dnn_bool, CUDNN_DATA_BOOLEAN);
  SAME(dnn_knob_choice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  SAME(dnn_matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  SAME(dnn_operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  SAME(dnn_reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  SAME(dnn_operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  SAME(dnn_is_knob, CUDNN_TYPE_KNOB_TYPE);
  SAME(dnn_is_reduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  SAME(dnn_is_behavior_note, CUDNN_TYPE_BEHAVIOR_NOTE);
  SAME(dnn_is_char, CUDNN_TYPE_CHAR);
  SAME(dnn_pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
  SAME(dnn_config_choices, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  SAME(dnn_plan_text, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  SAME(dnn_choice_knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
  SAME(dnn_choice_value, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  SAME(dnn_operation_pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  SAME(dnn_tensor_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  SAME(dnn_engine_behavior_note, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);
  SAME(dnn_matmul_type, CUDNN_ATTR_MATMUL_COMP_TYPE);
  SAME(dnn_operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  SAME(dnn_operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  SAME(dnn_operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  SAME(dnn_operation_matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  SAME(dnn_reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
  SAME(dnn_reduction_type, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  SAME(dnn_operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  SAME(dnn_operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  SAME(dnn_operation_reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  SAME(dnn_exp, CUDNN_POINTWISE_EXP);
  SAME(dnn_log, CUDNN_POINTWISE_LOG);
  SAME(dnn_identity, CUDNN_POINTWISE_IDENTITY);
  SAME(dnn_at_least, CUDNN_POINTWISE_CMP_GE);
  SAME(dnn_index, CUDNN_POINTWISE_GEN_INDEX);
  SAME(dnn_select, CUDNN_POINTWISE_BINARY_SELECT);
  SAME(dnn_compiles, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
  SAME(dnn_wants_reordered_weights, CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER);
  SAME(dnn_wants_reordered_bias, CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER);
  SAME(dnn_sum, CUDNN_REDUCE_TENSOR_ADD);
  SAME(dnn_maximum, CUDNN_REDUCE_TENSOR_MAX);
  SAME(dnn_resample, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  SAME(dnn_operation_resample, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  SAME(dnn_is_resample_mode, CUDNN_TYPE_RESAMPLE_MODE);
  SAME(dnn_is_padding_mode, CUDNN_TYPE_PADDING_MODE);
  SAME(dnn_is_fraction, CUDNN_TYPE_FRACTION);
  SAME(dnn_resample_mode, CUDNN_ATTR_RESAMPLE_MODE);
  SAME(dnn_resample_type, CUDNN_ATTR_RESAMPLE_COMP_TYPE);
  SAME(dnn_resample_axes, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS);
  SAME(dnn_resample_post_paddings, CUDNN_ATTR_RESAMPLE_POST_PADDINGS);
  SAME(dnn_resample_pre_paddings, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS);
  SAME(dnn_resample_strides, CUDNN_ATTR_RESAMPLE_STRIDES);
  SAME(dnn_resample_window, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS);
  SAME(dnn_resample_padding_mode, CUDNN_ATTR_RESAMPLE_PADDING_MODE);
  SAME(dnn_operation_resample_x, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC);
  SAME(dnn_operation_resample_y, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC);
  SAME(dnn_operation_resample_descriptor, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC);
  SAME(dnn_mean_with_padding, CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING);
  SAME(dnn_mean_inside, CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING);
  SAME(dnn_largest, CUDNN_RESAMPLE_MAXPOOL);
  SAME(dnn_zeros, CUDNN_ZERO_PAD);
  SAME(dnn_minus_infinity, CUDNN_NEG_INF_PAD);
  static_assert(sizeof(DnnFraction) == sizeof(cudnnFraction_t));
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#endif
