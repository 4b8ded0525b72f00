// What smelt uses of the CUDA driver's interface, declared here so that a build needs no CUDA toolkit. The numbers and layouts
// are NVIDIA's (cuda.h, "CUDA Driver API"): tests/device/abi_test.cpp compares them with the toolkit's header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;

namespace smelt::device::cuda::abi {

using Result = int;        // CUresult
using Device = int;        // CUdevice
using Address = uint64_t;  // CUdeviceptr
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;
using GraphNode = CUgraphNode_st*;
/// What a dependency waits for: all zero, the whole of the node before.
struct GraphEdge {
  unsigned char from_port = 0, to_port = 0;
  unsigned char type = 0;  // 1: programmatic, the node after begins when the one before lets it
  unsigned char reserved[5] = {};
};

enum ResultCode : Result {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  ecc_uncorrectable = 214,
  not_ready = 600,
  illegal_address = 700,
  launch_timeout = 702,
  assert_failed = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  unknown = 999,
};

/// CUdevice_attribute.
enum DeviceAttribute : int {
  clock_rate_khz = 13,
  multiprocessor_count = 16,
  memory_clock_rate_khz = 36,
  memory_bus_bits = 37,
  l2_cache_bytes = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  max_shared_memory_per_block_optin = 97,
  reserved_shared_memory_per_block = 111,
};

enum FunctionAttribute : int { function_max_dynamic_shared_bytes = 8 };  // CUfunction_attribute
enum StreamFlags : unsigned { stream_non_blocking = 1 };
enum EventFlags : unsigned { event_default = 0, event_disable_timing = 2 };
enum CaptureMode : int { capture_thread_local = 1, capture_relaxed = 2 };
enum PointerAttribute : int { pointer_memory_type = 2, pointer_device_ordinal = 9 };  // CUpointer_attribute
enum MemoryType : unsigned { memory_device = 2, memory_unified = 4 };                 // CUmemorytype

/// CUlaunchAttributeID.
enum LaunchAttributeId : int { launch_cluster_dimension = 4, launch_programmatic_stream_serialization = 6 };

/// CUlaunchAttribute: a value of 64 bytes behind its number.
struct LaunchAttribute {
  LaunchAttributeId id;
  int unused = 0;
  union {
    char bytes[64];
    int allowed;  // programmatic_stream_serialization
    struct {
      unsigned x, y, z;
    } cluster;
  } value{};
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

struct Uuid {
  unsigned char bytes[16];
};

/// CUtensorMap, which the driver encodes, and what it says of a tensor.
struct alignas(128) TensorMap {
  uint64_t words[16] = {};
};
static_assert(sizeof(TensorMap) == 128);
enum TensorMapType : int {
  tensor_map_u8 = 0,
  tensor_map_f16 = 6,
  tensor_map_bf16 = 9,
  tensor_map_tf32 = 11
};  // CUtensorMapDataType
enum TensorMapInterleave : int { tensor_map_no_interleave = 0 };
enum TensorMapSwizzle : int { tensor_map_swizzle_128 = 3 };
enum TensorMapPromotion : int { tensor_map_promote_256 = 3 };  // CUtensorMapL2promotion, bytes
enum TensorMapFill : int { tensor_map_fill_zeros = 0 };        // CUtensorMapFloatOOBfill

struct Copy2d {  // CUDA_MEMCPY2D
  size_t from_x = 0, from_y = 0;
  MemoryType from_type = memory_unified;
  const void* from_host = nullptr;
  Address from = 0;
  void* from_array = nullptr;
  size_t from_pitch = 0;
  size_t to_x = 0, to_y = 0;
  MemoryType to_type = memory_unified;
  void* to_host = nullptr;
  Address to = 0;
  void* to_array = nullptr;
  size_t to_pitch = 0;
  size_t width = 0, height = 0;  // bytes, rows
};
static_assert(sizeof(Copy2d) == 128);

// name here, symbol in libcuda, parameters
#define SMELT_CUDA_DRIVER(X)                                                                                                    \
  X(init, cuInit, unsigned flags)                                                                                               \
  X(driver_version, cuDriverGetVersion, int* version)                                                                           \
  X(error_name, cuGetErrorName, Result error, const char** text)                                                                \
  X(error_text, cuGetErrorString, Result error, const char** text)                                                              \
  X(device_count, cuDeviceGetCount, int* count)                                                                                 \
  X(device_get, cuDeviceGet, Device* device, int ordinal)                                                                       \
  X(device_name, cuDeviceGetName, char* name, int size, Device device)                                                          \
  X(device_uuid, cuDeviceGetUuid_v2, Uuid* uuid, Device device)                                                                 \
  X(device_memory, cuDeviceTotalMem_v2, size_t* bytes, Device device)                                                           \
  X(device_attribute, cuDeviceGetAttribute, int* value, DeviceAttribute attribute, Device device)                               \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, Context* context, Device device)                                          \
  X(primary_context_release, cuDevicePrimaryCtxRelease_v2, Device device)                                                       \
  X(context_push, cuCtxPushCurrent_v2, Context context)                                                                         \
  X(context_pop, cuCtxPopCurrent_v2, Context* context)                                                                          \
  X(context_synchronize, cuCtxSynchronize)                                                                                      \
  X(memory_info, cuMemGetInfo_v2, size_t* free, size_t* total)                                                                  \
  X(memory_allocate, cuMemAlloc_v2, Address* address, size_t bytes)                                                             \
  X(memory_free, cuMemFree_v2, Address address)                                                                                 \
  X(host_allocate, cuMemAllocHost_v2, void** memory, size_t bytes)                                                              \
  X(host_free, cuMemFreeHost, void* memory)                                                                                     \
  X(copy_to_device, cuMemcpyHtoDAsync_v2, Address to, const void* from, size_t bytes, Stream stream)                            \
  X(copy_to_host, cuMemcpyDtoHAsync_v2, void* to, Address from, size_t bytes, Stream stream)                                    \
  X(copy, cuMemcpyAsync, Address to, Address from, size_t bytes, Stream stream)                                                 \
  X(copy_2d, cuMemcpy2DAsync_v2, const Copy2d* copy, Stream stream)                                                             \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, Address to, Address from, size_t bytes, Stream stream)                                \
  X(fill_bytes, cuMemsetD8Async, Address to, unsigned char value, size_t count, Stream stream)                                  \
  X(pointer_attribute, cuPointerGetAttribute, void* value, PointerAttribute attribute, Address address)                         \
  X(stream_create, cuStreamCreate, Stream* stream, unsigned flags)                                                              \
  X(stream_destroy, cuStreamDestroy_v2, Stream stream)                                                                          \
  X(stream_synchronize, cuStreamSynchronize, Stream stream)                                                                     \
  X(stream_wait_event, cuStreamWaitEvent, Stream stream, Event event, unsigned flags)                                           \
  X(stream_is_capturing, cuStreamIsCapturing, Stream stream, int* status)                                                       \
  X(thread_capture_mode, cuThreadExchangeStreamCaptureMode, CaptureMode* mode)                                                  \
  X(stream_begin_capture, cuStreamBeginCapture_v2, Stream stream, CaptureMode mode)                                             \
  X(stream_capture_info, cuStreamGetCaptureInfo_v3, Stream stream, int* status, uint64_t* id, Graph* graph,                     \
    const GraphNode** dependencies, const GraphEdge** edges, size_t* dependency_count)                                          \
  X(stream_end_capture, cuStreamEndCapture, Stream stream, Graph* graph)                                                        \
  X(event_create, cuEventCreate, Event* event, unsigned flags)                                                                  \
  X(event_destroy, cuEventDestroy_v2, Event event)                                                                              \
  X(event_record, cuEventRecord, Event event, Stream stream)                                                                    \
  X(event_query, cuEventQuery, Event event)                                                                                     \
  X(event_synchronize, cuEventSynchronize, Event event)                                                                         \
  X(event_elapsed, cuEventElapsedTime, float* milliseconds, Event begin, Event end)                                             \
  X(graph_destroy, cuGraphDestroy, Graph graph)                                                                                 \
  X(graph_nodes, cuGraphGetNodes, Graph graph, GraphNode* nodes, size_t* count)                                                 \
  X(graph_edges, cuGraphGetEdges_v2, Graph graph, GraphNode* from, GraphNode* to, GraphEdge* data, size_t* count)               \
  X(graph_add_edges, cuGraphAddDependencies_v2, Graph graph, const GraphNode* from, const GraphNode* to, const GraphEdge* data, \
    size_t count)                                                                                                               \
  X(graph_remove_edges, cuGraphRemoveDependencies_v2, Graph graph, const GraphNode* from, const GraphNode* to,                  \
    const GraphEdge* data, size_t count)                                                                                        \
  X(graph_instantiate, cuGraphInstantiateWithFlags, GraphExec* exec, Graph graph, unsigned long long flags)                     \
  X(graph_exec_destroy, cuGraphExecDestroy, GraphExec exec)                                                                     \
  X(graph_launch, cuGraphLaunch, GraphExec exec, Stream stream)                                                                 \
  X(module_load, cuModuleLoadData, Module* module, const void* image)                                                           \
  X(module_unload, cuModuleUnload, Module module)                                                                               \
  X(module_function, cuModuleGetFunction, Function* function, Module module, const char* name)                                  \
  X(function_set_attribute, cuFuncSetAttribute, Function function, FunctionAttribute attribute, int value)                      \
  X(tensor_map_tiled, cuTensorMapEncodeTiled, TensorMap* map, TensorMapType type, uint32_t rank, void* address,                 \
    const uint64_t* extents, const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,                     \
    TensorMapInterleave interleave, TensorMapSwizzle swizzle, TensorMapPromotion promotion, TensorMapFill fill)                 \
  X(tensor_map_im2col, cuTensorMapEncodeIm2col, TensorMap* map, TensorMapType type, uint32_t rank, void* address,               \
    const uint64_t* extents, const uint64_t* strides, const int* first, const int* last, uint32_t channels, uint32_t pixels,    \
    const uint32_t* element_strides, TensorMapInterleave interleave, TensorMapSwizzle swizzle, TensorMapPromotion promotion,    \
    TensorMapFill fill)                                                                                                         \
  X(launch, cuLaunchKernelEx, const LaunchConfig* config, Function function, void** parameters, void** extra)

/// Their addresses.
struct Driver {
#define X(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_DRIVER(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
