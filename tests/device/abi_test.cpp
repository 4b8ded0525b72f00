// The declarations of src/device/cuda/abi against NVIDIA's headers, where the build's Python has them (PyTorch's wheel brings them).
#include <gtest/gtest.h>

#include "device/cuda/abi/cublaslt.h"
#include "device/cuda/abi/driver.h"
#include "device/cuda/abi/nvrtc.h"

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

// Parameters of theirs and ours: enumerations, pointers to structures of one size, and numbers.
template <class Theirs, class Ours> constexpr bool same_value() {
  if constexpr (std::is_pointer_v<Theirs> != std::is_pointer_v<Ours>) return false;
  else if constexpr (std::is_pointer_v<Theirs>) {
    using T = std::remove_pointer_t<Theirs>;
    using O = std::remove_pointer_t<Ours>;
    if constexpr (std::is_function_v<T> || std::is_function_v<O>) return false;
    else if constexpr (std::is_void_v<T> || std::is_void_v<O>) return std::is_void_v<O>;   // a handle of theirs is any pointer here
    else if constexpr (std::is_pointer_v<T>) return same_value<std::remove_cv_t<T>, std::remove_cv_t<O>>();
    else if constexpr (std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<O>>) return true;
    else return sizeof(T) == sizeof(O) && alignof(T) == alignof(O);
  } else return sizeof(Theirs) == sizeof(Ours);
}
template <class Theirs, class Ours> struct SameFunction : std::false_type {};
template <class R, class... T, class S, class... O> struct SameFunction<R (*)(T...), S (*)(O...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(T) != sizeof...(O)) return false;
    else return (same_value<T, O>() && ...) && sizeof(R) == sizeof(S);
  }();
};

// cuda.h turns a name without a version into the newest one, which has the same parameters.
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Driver::name)>::value, #symbol);
SMELT_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Nvrtc::name)>::value, #symbol);
SMELT_CUDA_NVRTC(X)
#undef X

#ifdef SMELT_HAS_CUBLASLT
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(BlasLt::name)>::value, #symbol);
SMELT_CUBLASLT(X)
#undef X
#endif

TEST(Abi, numbers_are_nvidias) {
#define SAME(ours, theirs) EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs)) << #theirs
  SAME(success, CUDA_SUCCESS);
  SAME(invalid_value, CUDA_ERROR_INVALID_VALUE);
  SAME(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
  SAME(not_initialized, CUDA_ERROR_NOT_INITIALIZED);
  SAME(deinitialized, CUDA_ERROR_DEINITIALIZED);
  SAME(no_device, CUDA_ERROR_NO_DEVICE);
  SAME(invalid_device, CUDA_ERROR_INVALID_DEVICE);
  SAME(invalid_image, CUDA_ERROR_INVALID_IMAGE);
  SAME(invalid_context, CUDA_ERROR_INVALID_CONTEXT);
  SAME(no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  SAME(ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
  SAME(not_found, CUDA_ERROR_NOT_FOUND);
  SAME(not_ready, CUDA_ERROR_NOT_READY);
  SAME(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
  SAME(launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  SAME(launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  SAME(assert_failed, CUDA_ERROR_ASSERT);
  SAME(hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
  SAME(illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  SAME(misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
  SAME(invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  SAME(invalid_pc, CUDA_ERROR_INVALID_PC);
  SAME(launch_failed, CUDA_ERROR_LAUNCH_FAILED);
  SAME(system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  SAME(unknown, CUDA_ERROR_UNKNOWN);
  SAME(max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SAME(max_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  SAME(warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  SAME(clock_rate_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  SAME(multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  SAME(integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  SAME(memory_clock_rate_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  SAME(memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  SAME(l2_cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  SAME(max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  SAME(compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SAME(compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  SAME(max_shared_memory_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  SAME(max_registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  SAME(max_shared_memory_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  SAME(max_blocks_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  SAME(reserved_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  SAME(memory_pools_supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  SAME(function_max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SAME(function_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  SAME(function_const_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  SAME(function_local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  SAME(function_registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
  SAME(function_max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SAME(function_preferred_shared_carveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  SAME(function_non_portable_cluster_allowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
  SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
  SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SAME(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  SAME(capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  SAME(capture_invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  SAME(graph_node_kernel, CU_GRAPH_NODE_TYPE_KERNEL);
  SAME(graph_node_memcpy, CU_GRAPH_NODE_TYPE_MEMCPY);
  SAME(graph_node_memset, CU_GRAPH_NODE_TYPE_MEMSET);
  SAME(pointer_context, CU_POINTER_ATTRIBUTE_CONTEXT);
  SAME(pointer_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  SAME(pointer_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  SAME(memory_host, CU_MEMORYTYPE_HOST);
  SAME(memory_device, CU_MEMORYTYPE_DEVICE);
  SAME(memory_unified, CU_MEMORYTYPE_UNIFIED);
  SAME(launch_cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  SAME(launch_cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  SAME(launch_programmatic_stream_serialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  SAME(nvrtc_success, NVRTC_SUCCESS);
  SAME(nvrtc_invalid_option, NVRTC_ERROR_INVALID_OPTION);
  SAME(nvrtc_compilation, NVRTC_ERROR_COMPILATION);
  SAME(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  SAME(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  SAME(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  SAME(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  SAME(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  SAME(sizeof(KernelNodeParams), sizeof(CUDA_KERNEL_NODE_PARAMS));
  SAME(offsetof(KernelNodeParams, parameters), offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
  SAME(offsetof(KernelNodeParams, context), offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
#ifdef SMELT_HAS_CUBLASLT
  SAME(blas_success, CUBLAS_STATUS_SUCCESS);
  SAME(blas_not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
  SAME(compute_f32, CUBLAS_COMPUTE_32F);
  SAME(compute_f32_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  SAME(compute_f64, CUBLAS_COMPUTE_64F);
  SAME(compute_i32, CUBLAS_COMPUTE_32I);
  SAME(r_f32, CUDA_R_32F);
  SAME(r_f64, CUDA_R_64F);
  SAME(r_f16, CUDA_R_16F);
  SAME(r_i8, CUDA_R_8I);
  SAME(r_u8, CUDA_R_8U);
  SAME(r_i32, CUDA_R_32I);
  SAME(r_bf16, CUDA_R_16BF);
  SAME(r_f8e4m3, CUDA_R_8F_E4M3);
  SAME(operation_n, CUBLAS_OP_N);
  SAME(operation_t, CUBLAS_OP_T);
  SAME(matmul_transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
  SAME(matmul_transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
  SAME(matmul_epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  SAME(matmul_bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  SAME(matmul_bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SAME(layout_order, CUBLASLT_MATRIX_LAYOUT_ORDER);
  SAME(layout_batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SAME(layout_batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(order_columns, CUBLASLT_ORDER_COL);
  SAME(order_rows, CUBLASLT_ORDER_ROW);
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
#endif
#undef SAME
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(Abi, numbers_are_nvidias) { GTEST_SKIP() << "no CUDA headers beside the build's Python"; }
#endif
