// What smelt uses of cuDNN's backend interface (cudnn_graph.h, cuDNN 9), declared here so that a build needs no cuDNN. The
// numbers are NVIDIA's: tests/device/cudnn_abi_test.cpp compares them with the header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/abi/driver.h"

struct cudnnContext;

namespace smelt::device::cuda::abi {

using DnnStatus = int;  // cudnnStatus_t; 0 is success
using DnnHandle = cudnnContext*;
using DnnDescriptor = void*;  // cudnnBackendDescriptor_t

enum DnnStatusCode : DnnStatus { dnn_success = 0, dnn_not_supported = 3000, dnn_internal_error = 4000 };
enum DnnType : int {  // cudnnDataType_t
  dnn_f32 = 0,
  dnn_f64 = 1,
  dnn_f16 = 2,
  dnn_i8 = 3,
  dnn_i32 = 4,
  dnn_u8 = 6,
  dnn_bf16 = 9,
  dnn_i64 = 10,
  dnn_bool = 11,
};

enum DnnDescriptorType : int {  // cudnnBackendDescriptorType_t
  dnn_pointwise = 0,
  dnn_convolution = 1,
  dnn_engine = 2,
  dnn_engine_config = 3,
  dnn_heuristic = 4,
  dnn_plan = 5,
  dnn_knob_choice = 7,
  dnn_operation_convolution = 10,
  dnn_operation_pointwise = 13,
  dnn_operation_graph = 15,
  dnn_variant_pack = 16,
  dnn_tensor = 17,
  dnn_matmul = 18,
  dnn_operation_matmul = 19,
  dnn_reduction = 21,
  dnn_operation_reduction = 22,
  dnn_resample = 24,
  dnn_operation_resample = 25,
};

enum DnnAttributeType : int {  // cudnnBackendAttributeType_t
  dnn_is_handle = 0,
  dnn_is_type = 1,
  dnn_is_bool = 2,
  dnn_is_i64 = 3,
  dnn_is_float = 4,
  dnn_is_double = 5,
  dnn_is_pointer = 6,
  dnn_is_convolution_mode = 7,
  dnn_is_heuristic_mode = 8,
  dnn_is_knob = 9,
  dnn_is_numerical_note = 11,
  dnn_is_pointwise_mode = 14,
  dnn_is_descriptor = 15,
  dnn_is_reduction = 18,
  dnn_is_behavior_note = 19,
  dnn_is_resample_mode = 21,
  dnn_is_padding_mode = 22,
  dnn_is_char = 24,
  dnn_is_fraction = 26,
};

enum DnnAttribute : int {  // cudnnBackendAttributeName_t
  dnn_pointwise_mode = 0,
  dnn_pointwise_precision = 1,
  dnn_pointwise_axis = 9,
  dnn_convolution_type = 100,
  dnn_convolution_mode = 101,
  dnn_convolution_dilations = 102,
  dnn_convolution_strides = 103,
  dnn_convolution_post_paddings = 104,
  dnn_convolution_pre_paddings = 105,
  dnn_convolution_axes = 106,
  dnn_heuristic_mode = 200,
  dnn_heuristic_graph = 201,
  dnn_heuristic_results = 202,
  dnn_config_engine = 300,
  dnn_config_choices = 302,
  dnn_plan_handle = 400,
  dnn_plan_config = 401,
  dnn_plan_workspace = 402,
  dnn_plan_text = 405,
  dnn_choice_knob = 600,
  dnn_choice_value = 601,
  dnn_forward_alpha = 700,
  dnn_forward_beta = 701,
  dnn_forward_convolution = 702,
  dnn_forward_w = 703,
  dnn_forward_x = 704,
  dnn_forward_y = 705,
  dnn_operation_pointwise_descriptor = 750,
  dnn_operation_pointwise_x = 751,
  dnn_operation_pointwise_b = 752,
  dnn_operation_pointwise_y = 753,
  dnn_operation_pointwise_t = 758,
  dnn_graph_handle = 800,
  dnn_graph_operations = 801,
  dnn_tensor_alignment = 900,
  dnn_tensor_type = 901,
  dnn_tensor_dimensions = 902,
  dnn_tensor_strides = 903,
  dnn_tensor_id = 906,
  dnn_tensor_virtual = 907,
  dnn_tensor_by_value = 908,
  dnn_pack_ids = 1000,
  dnn_pack_pointers = 1001,
  dnn_pack_workspace = 1003,
  dnn_engine_index = 1301,
  dnn_engine_numerical_note = 1303,
  dnn_engine_behavior_note = 1305,
  dnn_matmul_type = 1500,
  dnn_operation_matmul_a = 1520,
  dnn_operation_matmul_b = 1521,
  dnn_operation_matmul_c = 1522,
  dnn_operation_matmul_descriptor = 1523,
  dnn_reduction_operator = 1600,
  dnn_reduction_type = 1601,
  dnn_operation_reduction_x = 1610,
  dnn_operation_reduction_y = 1611,
  dnn_operation_reduction_descriptor = 1612,
  dnn_resample_mode = 1700,
  dnn_resample_type = 1701,
  dnn_resample_axes = 1702,
  dnn_resample_post_paddings = 1703,
  dnn_resample_pre_paddings = 1704,
  dnn_resample_strides = 1705,
  dnn_resample_window = 1706,
  dnn_resample_padding_mode = 1708,
  dnn_operation_resample_x = 1710,
  dnn_operation_resample_y = 1711,
  dnn_operation_resample_descriptor = 1716,
};

enum DnnConvolutionMode : int { dnn_cross_correlation = 1 };
enum DnnHeuristicMode : int { dnn_mode_instant = 0, dnn_mode_b = 1, dnn_mode_fallback = 2, dnn_mode_a = 3 };
enum DnnPointwise : int {  // cudnnPointwiseMode_t
  dnn_add = 0,
  dnn_mul = 1,
  dnn_min = 2,
  dnn_max = 3,
  dnn_div = 6,
  dnn_sub = 9,
  dnn_exp = 13,
  dnn_log = 15,
  dnn_identity = 21,
  dnn_relu = 100,
  dnn_tanh = 101,
  dnn_sigmoid = 102,
  dnn_gelu = 104,
  dnn_swish = 106,
  dnn_gelu_tanh = 107,
  dnn_at_least = 303,
  dnn_index = 501,
  dnn_select = 601,
};
enum DnnNumericalNote : int {
  dnn_uses_tensor_cores = 0,
  dnn_rounds_inputs = 1,
  dnn_rounds_sums = 2,
  dnn_uses_fft = 3,
  dnn_not_deterministic = 4,
  dnn_winograd = 5,
};
enum DnnBehaviorNote : int {  // cudnnBackendBehaviorNote_t
  dnn_compiles = 0,
  dnn_wants_reordered_weights = 1,
  dnn_wants_reordered_bias = 2,
};
enum DnnReduction : int { dnn_sum = 0, dnn_maximum = 3 };  // cudnnReduceTensorOp_t
/// cudnnResampleMode_t: of windows, the mean with the padding counted or not, the largest.
enum DnnResample : int { dnn_mean_with_padding = 2, dnn_largest = 3, dnn_mean_inside = 4 };
enum DnnPadding : int { dnn_zeros = 0, dnn_minus_infinity = 1 };  // cudnnPaddingMode_t
struct DnnFraction {                                              // cudnnFraction_t
  int64_t numerator = 0, denominator = 1;
};
constexpr int64_t dnn_most_notes = 16, dnn_most_knobs = 64;  // more than any version has

#define SMELT_CUDNN(X)                                                                                                 \
  X(create, cudnnCreate, DnnHandle* handle)                                                                            \
  X(destroy, cudnnDestroy, DnnHandle handle)                                                                           \
  X(set_stream, cudnnSetStream, DnnHandle handle, Stream stream)                                                       \
  X(descriptor_create, cudnnBackendCreateDescriptor, DnnDescriptorType type, DnnDescriptor* descriptor)                \
  X(descriptor_destroy, cudnnBackendDestroyDescriptor, DnnDescriptor descriptor)                                       \
  X(descriptor_finalize, cudnnBackendFinalize, DnnDescriptor descriptor)                                               \
  X(descriptor_set, cudnnBackendSetAttribute, DnnDescriptor descriptor, DnnAttribute attribute, DnnAttributeType type, \
    int64_t count, const void* values)                                                                                 \
  X(descriptor_get, cudnnBackendGetAttribute, DnnDescriptor descriptor, DnnAttribute attribute, DnnAttributeType type, \
    int64_t wanted, int64_t* count, void* values)                                                                      \
  X(execute, cudnnBackendExecute, DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack)

/// Its functions, found at run time.
struct Dnn {
#define X(name, symbol, ...) DnnStatus (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDNN(X)
#undef X
  size_t (*version)() = nullptr;                              // cudnnGetVersion
  const char* (*status_text)(DnnStatus) = nullptr;            // cudnnGetErrorString
  void (*last_error)(char* message, size_t bytes) = nullptr;  // cudnnGetLastErrorString
};

}  // namespace smelt::device::cuda::abi
