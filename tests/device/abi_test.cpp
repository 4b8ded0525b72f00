// The declarations of src/device/cuda/abi against NVIDIA's headers, where the build's Python has them (PyTorch's wheel brings
// them).
#include <gtest/gtest.h>

#include "device/cuda/abi/clusters.h"
#include "device/cuda/abi/cublaslt.h"
#include "device/cuda/abi/driver.h"
#include "device/cuda/abi/nvrtc.h"
#include "device/cuda/abi/places.h"
#include "device/cuda/abi/swizzles.h"
#include "same_function.h"

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>
// cuBLASLt's header includes the compiler's, which are a wheel of their own that PyTorch does not bring.
#if __has_include(<cublasLt.h>) && __has_include(<crt/host_defines.h>)
#include <cublasLt.h>
#define SMELT_HAS_CUBLASLT
#endif

namespace smelt::device::cuda::abi {
namespace {

// cuda.h turns a name without a version into the newest one, which has the same parameters.
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Driver::name)>::value, #symbol);
SMELT_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Clusters::name)>::value, #symbol);
SMELT_CUDA_CLUSTERS(X)
#undef X
#if CUDA_VERSION >= 12040
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Places::name)>::value, #symbol);
SMELT_CUDA_PLACES(X)
#undef X
#endif
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Nvrtc::name)>::value, #symbol);
SMELT_CUDA_NVRTC(X)
#undef X

#ifdef SMELT_HAS_CUBLASLT
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(BlasLt::name)>::value, #symbol);
SMELT_CUBLASLT(X)
#undef X
#endif

TEST(Abi, numbers_are_nvidias) {
  SAME(success, CUDA_SUCCESS);
  SAME(invalid_value, CUDA_ERROR_INVALID_VALUE);
  SAME(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
  SAME(ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
  SAME(not_ready, CUDA_ERROR_NOT_READY);
  SAME(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
  SAME(launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  SAME(assert_failed, CUDA_ERROR_ASSERT);
  SAME(hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
  SAME(illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  SAME(misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
  SAME(invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  SAME(invalid_pc, CUDA_ERROR_INVALID_PC);
  SAME(launch_failed, CUDA_ERROR_LAUNCH_FAILED);
  SAME(unknown, CUDA_ERROR_UNKNOWN);
  SAME(clock_rate_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  SAME(multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  SAME(memory_clock_rate_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  SAME(memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  SAME(l2_cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  SAME(max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  SAME(compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SAME(compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  SAME(max_shared_memory_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  SAME(max_registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  SAME(max_shared_memory_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  SAME(reserved_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  SAME(function_max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SAME(function_non_portable_cluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
  SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
  SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SAME(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  SAME(pointer_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  SAME(pointer_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  SAME(memory_device, CU_MEMORYTYPE_DEVICE);
  SAME(launch_cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  SAME(launch_programmatic_stream_serialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  SAME(tensor_map_u8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
  SAME(tensor_map_f16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  SAME(tensor_map_bf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  SAME(tensor_map_tf32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
  SAME(tensor_map_no_interleave, CU_TENSOR_MAP_INTERLEAVE_NONE);
  SAME(tensor_map_swizzle_64, CU_TENSOR_MAP_SWIZZLE_64B);
  SAME(tensor_map_swizzle_128, CU_TENSOR_MAP_SWIZZLE_128B);
  SAME(tensor_map_promote_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  SAME(tensor_map_fill_zeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  SAME(sizeof(TensorMap), sizeof(CUtensorMap));
  SAME(alignof(TensorMap), alignof(CUtensorMap));
#if CUDA_VERSION >= 12040
  SAME(resource_multiprocessors, CU_DEV_RESOURCE_TYPE_SM);
  SAME(green_context_default_stream, CU_GREEN_CTX_DEFAULT_STREAM);
  SAME(sizeof(Resource), sizeof(CUdevResource));
  SAME(offsetof(Resource, multiprocessors), offsetof(CUdevResource, sm));
  SAME(offsetof(Resource, multiprocessors.least), offsetof(CUdevResource, sm.minSmPartitionSize));
#endif
  SAME(nvrtc_success, NVRTC_SUCCESS);
  SAME(nvrtc_invalid_option, NVRTC_ERROR_INVALID_OPTION);
  SAME(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  SAME(sizeof(Copy2d), sizeof(CUDA_MEMCPY2D));
  SAME(offsetof(Copy2d, from_type), offsetof(CUDA_MEMCPY2D, srcMemoryType));
  SAME(offsetof(Copy2d, from), offsetof(CUDA_MEMCPY2D, srcDevice));
  SAME(offsetof(Copy2d, from_pitch), offsetof(CUDA_MEMCPY2D, srcPitch));
  SAME(offsetof(Copy2d, to_type), offsetof(CUDA_MEMCPY2D, dstMemoryType));
  SAME(offsetof(Copy2d, to), offsetof(CUDA_MEMCPY2D, dstDevice));
  SAME(offsetof(Copy2d, to_pitch), offsetof(CUDA_MEMCPY2D, dstPitch));
  SAME(offsetof(Copy2d, width), offsetof(CUDA_MEMCPY2D, WidthInBytes));
  SAME(sizeof(GraphEdge), sizeof(CUgraphEdgeData));
  SAME(offsetof(GraphEdge, type), offsetof(CUgraphEdgeData, type));
  SAME(memory_unified, CU_MEMORYTYPE_UNIFIED);
  SAME(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  SAME(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  SAME(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  SAME(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
#ifdef SMELT_HAS_CUBLASLT
  SAME(blas_success, CUBLAS_STATUS_SUCCESS);
  SAME(compute_f32, CUBLAS_COMPUTE_32F);
  SAME(compute_f32_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  SAME(r_f32, CUDA_R_32F);
  SAME(r_f16, CUDA_R_16F);
  SAME(r_bf16, CUDA_R_16BF);
  SAME(operation_n, CUBLAS_OP_N);
  SAME(operation_t, CUBLAS_OP_T);
  SAME(matmul_transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
  SAME(matmul_transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
  SAME(matmul_epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  SAME(matmul_bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  SAME(matmul_bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SAME(layout_batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SAME(layout_batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(preference_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  SAME(preference_reduction_schemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  SAME(preference_alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  SAME(preference_alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  SAME(preference_alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  SAME(preference_alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SAME(epilogue_default, CUBLASLT_EPILOGUE_DEFAULT);
  SAME(epilogue_relu, CUBLASLT_EPILOGUE_RELU);
  SAME(epilogue_bias, CUBLASLT_EPILOGUE_BIAS);
  SAME(epilogue_relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS);
  SAME(epilogue_gelu, CUBLASLT_EPILOGUE_GELU);
  SAME(epilogue_gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS);
  SAME(sizeof(MatmulAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  SAME(sizeof(MatmulHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  SAME(offsetof(MatmulHeuristic, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  SAME(offsetof(MatmulHeuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
  SAME(offsetof(MatmulHeuristic, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
  SAME(reduction_compute_type, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  SAME(algorithm_id, CUBLASLT_ALGO_CONFIG_ID);
  SAME(algorithm_tile, CUBLASLT_ALGO_CONFIG_TILE_ID);
  SAME(algorithm_splits, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  SAME(algorithm_swizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
  SAME(algorithm_custom, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
  SAME(algorithm_stages, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  SAME(algorithm_inner_shape, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
  SAME(algorithm_cluster_shape, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
#endif
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(Abi, numbers_are_nvidias) { GTEST_SKIP() << "no CUDA headers beside the build's Python"; }
#endif
