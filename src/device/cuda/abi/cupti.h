// What smelt uses of CUPTI's activity interface (cupti_activity.h, "CUDA Profiling Tools Interface"), declared here so that a
// build needs no CUDA toolkit. Records grow at their end from one version to the next: these are their beginnings, the same from
// CUDA 12.0 on, which tests/device/abi_tools_test.cpp holds against NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/abi/driver.h"

struct CUpti_Subscriber_st;

namespace smelt::device::cuda::abi {

using CuptiResult = int;  // CUptiResult
using CuptiSubscriber = CUpti_Subscriber_st*;
enum CuptiResultCode : CuptiResult { cupti_success = 0, cupti_multiple_subscribers = 39 };
enum ActivityKind : int { activity_copy = 1, activity_fill = 2, activity_kernel = 10 };  // CUpti_ActivityKind
enum ActivityFlush : uint32_t { activity_flush_forced = 1 };                             // CUpti_ActivityFlag
/// CUpti_ActivityMemcpyKind.
enum ActivityCopyKind : uint8_t { copy_host_to_device = 1, copy_device_to_host = 2, copy_device_to_device = 8 };

struct alignas(8) ActivityRecord {
  ActivityKind kind;
};  // CUpti_Activity

struct KernelRecord {  // CUpti_ActivityKernel
  ActivityKind kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;  // a thread
  int partitioned_requested, partitioned_executed;
  uint64_t start, end, completed;  // ns
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;  // bytes a block
  uint32_t local_per_thread, local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_requested, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;  // 0: launched by itself
};

struct TransferRecord {  // CUpti_ActivityMemcpy, CUpti_ActivityMemset
  ActivityKind kind;
  ActivityCopyKind copy_kind;  // of a copy; a fill's value begins here
  uint8_t rest_of_value[3];
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint32_t runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;
};

using ActivityBufferWanted = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using ActivityBufferFull = void (*)(Context context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);
using CuptiCallback = void (*)(void* data, int domain, uint32_t callback, const void* info);

#define SMELT_CUDA_CUPTI(X)                                                                                 \
  X(result_text, cuptiGetResultString, CuptiResult result, const char** text)                               \
  X(version, cuptiGetVersion, uint32_t* version)                                                            \
  X(subscribe, cuptiSubscribe, CuptiSubscriber* subscriber, CuptiCallback callback, void* data)             \
  X(unsubscribe, cuptiUnsubscribe, CuptiSubscriber subscriber)                                              \
  X(register_buffers, cuptiActivityRegisterCallbacks, ActivityBufferWanted wanted, ActivityBufferFull full) \
  X(enable, cuptiActivityEnable, ActivityKind kind)                                                         \
  X(disable, cuptiActivityDisable, ActivityKind kind)                                                       \
  X(flush, cuptiActivityFlushAll, uint32_t flags)                                                           \
  X(next_record, cuptiActivityGetNextRecord, uint8_t* buffer, size_t valid_bytes, ActivityRecord** record)  \
  X(dropped_records, cuptiActivityGetNumDroppedRecords, Context context, uint32_t stream, size_t* dropped)

struct Cupti {
#define X(name, symbol, ...) CuptiResult (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_CUPTI(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
