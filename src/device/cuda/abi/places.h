// What smelt uses of the CUDA driver's interface for streams with a priority and for green contexts (CUDA 12.4 and later), declared
// here so that a build needs no CUDA toolkit. tests/device/abi_test.cpp compares it with the toolkit's header where there is one.
#pragma once

#include "device/cuda/abi/driver.h"

struct CUgreenCtx_st;
struct CUdevResourceDesc_st;

namespace smelt::device::cuda::abi {

using GreenContext = CUgreenCtx_st*;
using ResourceDescription = CUdevResourceDesc_st*;
enum ResourceType : int { resource_multiprocessors = 1 };                  // CUdevResourceType
enum GreenContextFlags : unsigned { green_context_default_stream = 0x1 };  // CUgreenCtxCreate_flags

struct Resource {  // CUdevResource
  ResourceType type;
  unsigned char padding[92];
  union {
    struct {
      unsigned count, least, unit;  // multiprocessors; the fewest of a part; what a count is a multiple of
    } multiprocessors;
    unsigned char bytes[48];
  };
};
static_assert(sizeof(Resource) == 144);

#define SMELT_CUDA_PLACES(X)                                                                                                     \
  X(priority_range, cuCtxGetStreamPriorityRange, int* least, int* greatest)                                                      \
  X(stream_create, cuStreamCreateWithPriority, Stream* stream, unsigned flags, int priority)                                     \
  X(device_resource, cuDeviceGetDevResource, Device device, Resource* resource, ResourceType type)                               \
  X(split, cuDevSmResourceSplitByCount, Resource* parts, unsigned* count, const Resource* whole, Resource* rest, unsigned flags, \
    unsigned least)                                                                                                              \
  X(describe, cuDevResourceGenerateDesc, ResourceDescription* description, Resource* resources, unsigned count)                  \
  X(create, cuGreenCtxCreate, GreenContext* context, ResourceDescription description, Device device, unsigned flags)             \
  X(destroy, cuGreenCtxDestroy, GreenContext context)                                                                            \
  X(green_stream, cuGreenCtxStreamCreate, Stream* stream, GreenContext context, unsigned flags, int priority)

struct Places {
#define X(name, symbol, ...) Result (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_PLACES(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
