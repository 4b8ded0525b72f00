// The declarations of src/device/cuda/abi against NVIDIA's headers, where the build's Python has them (PyTorch's wheel brings them).
#include <gtest/gtest.h>

#include "device/cuda/abi/driver.h"
#include "device/cuda/abi/nvrtc.h"
#include "same_function.h"

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>

namespace smelt::device::cuda::abi {
namespace {

// cuda.h turns a name without a version into the newest one, which has the same parameters.
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Driver::name)>::value, #symbol);
SMELT_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Nvrtc::name)>::value, #symbol);
SMELT_CUDA_NVRTC(X)
#undef X

TEST(Abi, numbers_are_nvidias) {
#define SAME(ours, theirs) EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs)) << #theirs
  SAME(success, CUDA_SUCCESS);
  SAME(invalid_value, CUDA_ERROR_INVALID_VALUE);
  SAME(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
  SAME(ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
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
  SAME(function_max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
  SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
  SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SAME(pointer_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  SAME(pointer_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  SAME(memory_device, CU_MEMORYTYPE_DEVICE);
  SAME(launch_cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  SAME(launch_programmatic_stream_serialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
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
  SAME(memory_unified, CU_MEMORYTYPE_UNIFIED);
  SAME(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  SAME(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  SAME(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  SAME(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
#undef SAME
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(Abi, numbers_are_nvidias) { GTEST_SKIP() << "no CUDA headers beside the build's Python"; }
#endif
