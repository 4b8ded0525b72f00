// What smelt uses of CUPTI's range profiler (cupti_range_profiler.h, cupti_profiler_host.h, cupti_profiler_target.h), declared
// here so that a build needs no CUDA toolkit. Every call takes one structure that says its size; these are as CUDA 12.6 and later
// have them, which tests/device/abi_tools_test.cpp holds against NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/abi/cupti.h"

struct CUpti_Profiler_Host_Object;
struct CUpti_RangeProfiler_Object;

namespace smelt::device::cuda::abi {

enum CuptiProfilerResult : CuptiResult {  // CUptiResult
  cupti_insufficient_privileges = 35,
  cupti_virtual_insufficient_privileges = 40
};
enum CuptiRange : int { cupti_auto_range = 1 };                             // CUpti_ProfilerRange
enum CuptiReplay : int { cupti_kernel_replay = 2, cupti_user_replay = 3 };  // CUpti_ProfilerReplayMode
enum CuptiProfiler : int { cupti_range_profiler = 0 };                      // CUpti_ProfilerType

using CuptiHost = CUpti_Profiler_Host_Object*;
using CuptiRanges = CUpti_RangeProfiler_Object*;

/// Bytes of a structure up to the end of its last member, as CUPTI counts them.
#define SMELT_CUPTI_END(type, last) (offsetof(type, last) + sizeof(type::last))

struct ProfilerInitialize {  // CUpti_Profiler_Initialize_Params
  size_t size = 0;
  void* reserved = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(ProfilerInitialize, reserved); }
};
struct ProfilerEnd {  // CUpti_Profiler_DeInitialize_Params
  size_t size = 0;
  void* reserved = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(ProfilerEnd, reserved); }
};
struct ChipName {  // CUpti_Device_GetChipName_Params
  size_t size = 0;
  void* reserved = nullptr;
  size_t device = 0;
  const char* name = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(ChipName, name); }
};
struct Availability {  // CUpti_Profiler_GetCounterAvailability_Params
  size_t size = 0;
  void* reserved = nullptr;
  Context context = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(Availability, image); }
};
struct HostInitialize {  // CUpti_Profiler_Host_Initialize_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiProfiler kind = cupti_range_profiler;
  const char* chip = nullptr;
  const uint8_t* availability = nullptr;
  CuptiHost host = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(HostInitialize, host); }
};
struct HostEnd {  // CUpti_Profiler_Host_Deinitialize_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(HostEnd, host); }
};
struct AddMetrics {  // CUpti_Profiler_Host_ConfigAddMetrics_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(AddMetrics, count); }
};
struct ConfigSize {  // CUpti_Profiler_Host_GetConfigImageSize_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  size_t bytes = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(ConfigSize, bytes); }
};
struct ConfigImage {  // CUpti_Profiler_Host_GetConfigImage_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(ConfigImage, image); }
};
struct Evaluate {  // CUpti_Profiler_Host_EvaluateToGpuValues_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiHost host = nullptr;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  size_t range = 0;
  const char** names = nullptr;
  size_t count = 0;
  double* values = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(Evaluate, values); }
};
struct RangesEnable {  // CUpti_RangeProfiler_Enable_Params
  size_t size = 0;
  void* reserved = nullptr;
  Context context = nullptr;
  CuptiRanges ranges = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesEnable, ranges); }
};
struct RangesDisable {  // CUpti_RangeProfiler_Disable_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesDisable, ranges); }
};
struct RangesConfig {  // CUpti_RangeProfiler_SetConfig_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  size_t config_bytes = 0;
  const uint8_t* config = nullptr;
  size_t bytes = 0;
  uint8_t* data = nullptr;
  CuptiRange range = cupti_auto_range;
  CuptiReplay replay = cupti_kernel_replay;
  size_t most = 0;
  uint16_t levels = 1;
  uint16_t least_level = 1;
  size_t pass = 0;
  uint16_t level = 1;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesConfig, level); }
};
struct RangesStart {  // CUpti_RangeProfiler_Start_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesStart, ranges); }
};
struct RangesStop {  // CUpti_RangeProfiler_Stop_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  size_t pass = 0;
  size_t level = 0;
  uint8_t all_passes = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesStop, all_passes); }
};
struct RangesDecode {  // CUpti_RangeProfiler_DecodeData_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  size_t dropped = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(RangesDecode, dropped); }
};
struct DataSize {  // CUpti_RangeProfiler_GetCounterDataSize_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  size_t most = 0;
  uint32_t nodes = 0;
  size_t bytes = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(DataSize, bytes); }
};
struct DataInitialize {  // CUpti_RangeProfiler_CounterDataImage_Initialize_Params
  size_t size = 0;
  void* reserved = nullptr;
  CuptiRanges ranges = nullptr;
  size_t bytes = 0;
  uint8_t* data = nullptr;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(DataInitialize, data); }
};
struct DataInfo {  // CUpti_RangeProfiler_GetCounterDataInfo_Params
  size_t size = 0;
  void* reserved = nullptr;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  size_t found = 0;
  static constexpr size_t bytes_used() { return SMELT_CUPTI_END(DataInfo, found); }
};

#define SMELT_CUDA_CUPTI_PROFILER(X)                                               \
  X(start_profiler, cuptiProfilerInitialize, ProfilerInitialize)                   \
  X(end_profiler, cuptiProfilerDeInitialize, ProfilerEnd)                          \
  X(chip_name, cuptiDeviceGetChipName, ChipName)                                   \
  X(availability, cuptiProfilerGetCounterAvailability, Availability)               \
  X(host, cuptiProfilerHostInitialize, HostInitialize)                             \
  X(end_host, cuptiProfilerHostDeinitialize, HostEnd)                              \
  X(add_metrics, cuptiProfilerHostConfigAddMetrics, AddMetrics)                    \
  X(config_size, cuptiProfilerHostGetConfigImageSize, ConfigSize)                  \
  X(config_image, cuptiProfilerHostGetConfigImage, ConfigImage)                    \
  X(evaluate, cuptiProfilerHostEvaluateToGpuValues, Evaluate)                      \
  X(enable, cuptiRangeProfilerEnable, RangesEnable)                                \
  X(disable, cuptiRangeProfilerDisable, RangesDisable)                             \
  X(configure, cuptiRangeProfilerSetConfig, RangesConfig)                          \
  X(start, cuptiRangeProfilerStart, RangesStart)                                   \
  X(stop, cuptiRangeProfilerStop, RangesStop)                                      \
  X(decode, cuptiRangeProfilerDecodeData, RangesDecode)                            \
  X(data_size, cuptiRangeProfilerGetCounterDataSize, DataSize)                     \
  X(data_initialize, cuptiRangeProfilerCounterDataImageInitialize, DataInitialize) \
  X(data_info, cuptiRangeProfilerGetCounterDataInfo, DataInfo)

struct CuptiRangeProfiler {
#define X(name, symbol, call) CuptiResult (*name)(call*) = nullptr;
  SMELT_CUDA_CUPTI_PROFILER(X)
#undef X
  CuptiResult (*result_text)(CuptiResult result, const char** text) = nullptr;
};

}  // namespace smelt::device::cuda::abi
