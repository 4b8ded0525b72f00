// The declarations of NVML, CUPTI and NVTX in src/device/cuda/abi against NVIDIA's headers, where the build's Python or the
// compiler has them.
#include <gtest/gtest.h>

#include "device/cuda/abi/cupti.h"
#include "device/cuda/abi/cupti_profiler.h"
#include "device/cuda/abi/nvml.h"
#include "device/cuda/abi/nvtx.h"
#include "same_function.h"

#define SAME_FIELD(ours, field, theirs, their_field) \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field) && sizeof(ours::field) == sizeof(theirs::their_field))

#if __has_include(<cupti_activity.h>)
#include <cupti_activity.h>
#include <cupti_activity_deprecated.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

namespace smelt::device::cuda::abi {
namespace {

#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Cupti::name)>::value, #symbol);
SMELT_CUDA_CUPTI(X)
#undef X

#define SAME_KERNEL(theirs)                                                     \
  SAME_FIELD(KernelRecord, kind, theirs, kind);                                 \
  SAME_FIELD(KernelRecord, registers, theirs, registersPerThread);              \
  SAME_FIELD(KernelRecord, start, theirs, start);                               \
  SAME_FIELD(KernelRecord, end, theirs, end);                                   \
  SAME_FIELD(KernelRecord, device, theirs, deviceId);                           \
  SAME_FIELD(KernelRecord, stream, theirs, streamId);                           \
  static_assert(offsetof(KernelRecord, grid) == offsetof(theirs, gridX));       \
  static_assert(offsetof(KernelRecord, block) == offsetof(theirs, blockX));     \
  static_assert(offsetof(KernelRecord, block) + 8 == offsetof(theirs, blockZ)); \
  SAME_FIELD(KernelRecord, static_shared, theirs, staticSharedMemory);          \
  SAME_FIELD(KernelRecord, dynamic_shared, theirs, dynamicSharedMemory);        \
  SAME_FIELD(KernelRecord, correlation, theirs, correlationId);                 \
  SAME_FIELD(KernelRecord, name, theirs, name);                                 \
  SAME_FIELD(KernelRecord, graph_node, theirs, graphNodeId)
SAME_KERNEL(CUpti_ActivityKernel8);   // CUDA 12.0
SAME_KERNEL(CUpti_ActivityKernel9);   // later ones of CUDA 12
SAME_KERNEL(CUpti_ActivityKernel10);  // CUDA 13.0

#define SAME_TRANSFER(theirs)                                     \
  SAME_FIELD(TransferRecord, kind, theirs, kind);                 \
  SAME_FIELD(TransferRecord, bytes, theirs, bytes);               \
  SAME_FIELD(TransferRecord, start, theirs, start);               \
  SAME_FIELD(TransferRecord, end, theirs, end);                   \
  SAME_FIELD(TransferRecord, device, theirs, deviceId);           \
  SAME_FIELD(TransferRecord, stream, theirs, streamId);           \
  SAME_FIELD(TransferRecord, correlation, theirs, correlationId); \
  SAME_FIELD(TransferRecord, graph_node, theirs, graphNodeId)
SAME_TRANSFER(CUpti_ActivityMemcpy5);
SAME_TRANSFER(CUpti_ActivityMemcpy6);
SAME_TRANSFER(CUpti_ActivityMemset4);
SAME_FIELD(TransferRecord, copy_kind, CUpti_ActivityMemcpy6, copyKind);

TEST(AbiTools, cuptis_numbers_are_nvidias) {
  SAME(cupti_success, CUPTI_SUCCESS);
  SAME(cupti_multiple_subscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  SAME(activity_copy, CUPTI_ACTIVITY_KIND_MEMCPY);
  SAME(activity_fill, CUPTI_ACTIVITY_KIND_MEMSET);
  SAME(activity_kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  SAME(activity_flush_forced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  SAME(copy_host_to_device, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  SAME(copy_device_to_host, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  SAME(copy_device_to_device, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(AbiTools, cuptis_numbers_are_nvidias) { GTEST_SKIP() << "no CUPTI headers beside the build's Python"; }
#endif

#if __has_include(<cupti_range_profiler.h>) && __has_include(<cupti_profiler_host.h>)
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

namespace smelt::device::cuda::abi {
namespace {

#define SAME_CALL(ours, theirs) static_assert(ours::bytes_used() == theirs##_STRUCT_SIZE)
SAME_CALL(ProfilerInitialize, CUpti_Profiler_Initialize_Params);
SAME_CALL(ProfilerEnd, CUpti_Profiler_DeInitialize_Params);
SAME_CALL(ChipName, CUpti_Device_GetChipName_Params);
SAME_FIELD(ChipName, device, CUpti_Device_GetChipName_Params, deviceIndex);
SAME_FIELD(ChipName, name, CUpti_Device_GetChipName_Params, pChipName);
SAME_CALL(Availability, CUpti_Profiler_GetCounterAvailability_Params);
SAME_FIELD(Availability, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
SAME_FIELD(Availability, bytes, CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize);
SAME_FIELD(Availability, image, CUpti_Profiler_GetCounterAvailability_Params, pCounterAvailabilityImage);
SAME_CALL(HostInitialize, CUpti_Profiler_Host_Initialize_Params);
SAME_FIELD(HostInitialize, kind, CUpti_Profiler_Host_Initialize_Params, profilerType);
SAME_FIELD(HostInitialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
SAME_FIELD(HostInitialize, availability, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
SAME_FIELD(HostInitialize, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);
SAME_CALL(HostEnd, CUpti_Profiler_Host_Deinitialize_Params);
SAME_FIELD(HostEnd, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
SAME_CALL(AddMetrics, CUpti_Profiler_Host_ConfigAddMetrics_Params);
SAME_FIELD(AddMetrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
SAME_FIELD(AddMetrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
SAME_FIELD(AddMetrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
SAME_CALL(ConfigSize, CUpti_Profiler_Host_GetConfigImageSize_Params);
SAME_FIELD(ConfigSize, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject);
SAME_FIELD(ConfigSize, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
SAME_CALL(ConfigImage, CUpti_Profiler_Host_GetConfigImage_Params);
SAME_FIELD(ConfigImage, host, CUpti_Profiler_Host_GetConfigImage_Params, pHostObject);
SAME_FIELD(ConfigImage, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
SAME_FIELD(ConfigImage, image, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
SAME_CALL(Evaluate, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
SAME_FIELD(Evaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
SAME_FIELD(Evaluate, data, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
SAME_FIELD(Evaluate, bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
SAME_FIELD(Evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
SAME_FIELD(Evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
SAME_FIELD(Evaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
SAME_FIELD(Evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
SAME_CALL(RangesEnable, CUpti_RangeProfiler_Enable_Params);
SAME_FIELD(RangesEnable, context, CUpti_RangeProfiler_Enable_Params, ctx);
SAME_FIELD(RangesEnable, ranges, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
SAME_CALL(RangesDisable, CUpti_RangeProfiler_Disable_Params);
SAME_FIELD(RangesDisable, ranges, CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject);
SAME_CALL(RangesConfig, CUpti_RangeProfiler_SetConfig_Params);
SAME_FIELD(RangesConfig, ranges, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject);
SAME_FIELD(RangesConfig, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
SAME_FIELD(RangesConfig, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
SAME_FIELD(RangesConfig, bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
SAME_FIELD(RangesConfig, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
SAME_FIELD(RangesConfig, range, CUpti_RangeProfiler_SetConfig_Params, range);
SAME_FIELD(RangesConfig, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
SAME_FIELD(RangesConfig, most, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
SAME_FIELD(RangesConfig, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
SAME_FIELD(RangesConfig, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
SAME_FIELD(RangesConfig, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
SAME_FIELD(RangesConfig, level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
SAME_CALL(RangesStart, CUpti_RangeProfiler_Start_Params);
SAME_FIELD(RangesStart, ranges, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
SAME_CALL(RangesStop, CUpti_RangeProfiler_Stop_Params);
SAME_FIELD(RangesStop, ranges, CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject);
SAME_FIELD(RangesStop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
SAME_FIELD(RangesStop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel);
SAME_FIELD(RangesStop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
SAME_CALL(RangesDecode, CUpti_RangeProfiler_DecodeData_Params);
SAME_FIELD(RangesDecode, ranges, CUpti_RangeProfiler_DecodeData_Params, pRangeProfilerObject);
SAME_FIELD(RangesDecode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
SAME_CALL(DataSize, CUpti_RangeProfiler_GetCounterDataSize_Params);
SAME_FIELD(DataSize, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, pRangeProfilerObject);
SAME_FIELD(DataSize, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
SAME_FIELD(DataSize, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
SAME_FIELD(DataSize, most, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
SAME_FIELD(DataSize, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
SAME_FIELD(DataSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
SAME_CALL(DataInitialize, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
SAME_FIELD(DataInitialize, ranges, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pRangeProfilerObject);
SAME_FIELD(DataInitialize, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
SAME_FIELD(DataInitialize, data, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);
SAME_CALL(DataInfo, CUpti_RangeProfiler_GetCounterDataInfo_Params);
SAME_FIELD(DataInfo, data, CUpti_RangeProfiler_GetCounterDataInfo_Params, pCounterDataImage);
SAME_FIELD(DataInfo, bytes, CUpti_RangeProfiler_GetCounterDataInfo_Params, counterDataImageSize);
SAME_FIELD(DataInfo, found, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);

TEST(AbiTools, the_range_profilers_numbers_are_nvidias) {
  SAME(cupti_insufficient_privileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  SAME(cupti_virtual_insufficient_privileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  SAME(cupti_auto_range, CUPTI_AutoRange);
  SAME(cupti_kernel_replay, CUPTI_KernelReplay);
  SAME(cupti_range_profiler, CUPTI_PROFILER_TYPE_RANGE_PROFILER);
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(AbiTools, the_range_profilers_numbers_are_nvidias) { GTEST_SKIP() << "no CUPTI headers beside the build's Python"; }
#endif

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace smelt::device::cuda::abi {
namespace {

SAME_FIELD(NvtxAttributes, bytes, nvtxEventAttributes_t, size);
SAME_FIELD(NvtxAttributes, colour, nvtxEventAttributes_t, color);
SAME_FIELD(NvtxAttributes, payload, nvtxEventAttributes_t, payload);
SAME_FIELD(NvtxAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_FIELD(NvtxAttributes, message, nvtxEventAttributes_t, message);
SAME_FIELD(NvtxCallbacks, table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_FIELD(NvtxVersion, version, NvtxExportTableVersionInfo, version);
SAME_FIELD(NvtxVersion, set_tools_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
static_assert(SameFunction<NvtxInitializeInjectionNvtxFunc_t, NvtxInitialize>::value);
static_assert(SameFunction<nvtxDomainCreateA_impl_fntype, NvtxDomainCreate>::value);
static_assert(SameFunction<nvtxDomainRangePushEx_impl_fntype, NvtxRangePush>::value);
static_assert(SameFunction<nvtxDomainRangePop_impl_fntype, NvtxRangePop>::value);

TEST(AbiTools, nvtxs_numbers_are_nvidias) {
  SAME(nvtx_version, NVTX_VERSION);
  SAME(sizeof(NvtxAttributes), sizeof(nvtxEventAttributes_t));
  SAME(NvtxAttributes{}.message_type, NVTX_MESSAGE_TYPE_ASCII);
  SAME(nvtx_table_callbacks, NVTX_ETID_CALLBACKS);
  SAME(nvtx_table_version, NVTX_ETID_VERSIONINFO);
  SAME(nvtx_module_core2, NVTX_CB_MODULE_CORE2);
  SAME(nvtx_range_push, NVTX_CBID_CORE2_DomainRangePushEx);
  SAME(nvtx_range_pop, NVTX_CBID_CORE2_DomainRangePop);
  SAME(nvtx_domain_create, NVTX_CBID_CORE2_DomainCreateA);
  SAME(std::size(nvtx_module_sizes), NVTX_CB_MODULE_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_CORE], NVTX_CBID_CORE_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_CUDA], NVTX_CBID_CUDA_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_OPENCL], NVTX_CBID_OPENCL_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_CUDART], NVTX_CBID_CUDART_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_CORE2], NVTX_CBID_CORE2_SIZE);
  SAME(nvtx_module_sizes[NVTX_CB_MODULE_SYNC], NVTX_CBID_SYNC_SIZE);
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(AbiTools, nvtxs_numbers_are_nvidias) { GTEST_SKIP() << "no NVTX headers beside the build's Python"; }
#endif

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace smelt::device::cuda::abi {
namespace {

#define X(name, symbol, ...) static_assert(SameFunction<decltype(&::symbol), decltype(Nvml::name)>::value, #symbol);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SMELT_CUDA_NVML(X)
#pragma GCC diagnostic pop
#undef X
SAME_FIELD(NvmlProcess, pid, nvmlProcessInfo_t, pid);
SAME_FIELD(NvmlProcess, used_bytes, nvmlProcessInfo_t, usedGpuMemory);
static_assert(sizeof(NvmlProcess) == sizeof(nvmlProcessInfo_t) && sizeof(NvmlUtilization) == sizeof(nvmlUtilization_t));

TEST(AbiTools, nvmls_numbers_are_nvidias) {
  SAME(nvml_success, NVML_SUCCESS);
  SAME(nvml_insufficient_size, NVML_ERROR_INSUFFICIENT_SIZE);
  SAME(nvml_clock_multiprocessors, NVML_CLOCK_SM);
  SAME(nvml_clock_memory, NVML_CLOCK_MEM);
  SAME(nvml_sensor_gpu, NVML_TEMPERATURE_GPU);
  SAME(nvml_idle, nvmlClocksThrottleReasonGpuIdle);
  SAME(nvml_application_clocks, nvmlClocksThrottleReasonApplicationsClocksSetting);
  SAME(nvml_power_cap, nvmlClocksThrottleReasonSwPowerCap);
  SAME(nvml_hardware_slowdown, nvmlClocksThrottleReasonHwSlowdown);
  SAME(nvml_sync_boost, nvmlClocksThrottleReasonSyncBoost);
  SAME(nvml_thermal, nvmlClocksThrottleReasonSwThermalSlowdown);
  SAME(nvml_hardware_thermal, nvmlClocksThrottleReasonHwThermalSlowdown);
  SAME(nvml_power_brake, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
  SAME(nvml_display_clocks, nvmlClocksThrottleReasonDisplayClockSetting);
}

}  // namespace
}  // namespace smelt::device::cuda::abi
#else
TEST(AbiTools, nvmls_numbers_are_nvidias) { GTEST_SKIP() << "no NVML header"; }
#endif
