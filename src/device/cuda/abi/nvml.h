// What smelt uses of NVML's interface (nvml.h, "NVIDIA Management Library"), declared here so that a build needs no CUDA toolkit.
#pragma once

struct nvmlDevice_st;

namespace smelt::device::cuda::abi {

using NvmlResult = int;  // nvmlReturn_t
using NvmlDevice = nvmlDevice_st*;
enum NvmlResultCode : NvmlResult { nvml_success = 0, nvml_insufficient_size = 7 };
enum NvmlClock : int { nvml_clock_multiprocessors = 1, nvml_clock_memory = 2 };  // nvmlClockType_t
enum NvmlSensor : int { nvml_sensor_gpu = 0 };                                   // nvmlTemperatureSensors_t

/// nvmlClocksThrottleReasons: bits.
enum NvmlSlowdown : unsigned long long {
  nvml_idle = 0x1,
  nvml_application_clocks = 0x2,
  nvml_power_cap = 0x4,
  nvml_hardware_slowdown = 0x8,
  nvml_sync_boost = 0x10,
  nvml_thermal = 0x20,
  nvml_hardware_thermal = 0x40,
  nvml_power_brake = 0x80,
  nvml_display_clocks = 0x100,
};

struct NvmlProcess {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long used_bytes;  // all bits set: not known
  unsigned gpu_instance, compute_instance;
};

struct NvmlUtilization {
  unsigned gpu, memory;
};  // percent of the last sample period

struct NvmlProcessUse {  // nvmlProcessUtilizationSample_t
  unsigned pid;
  unsigned long long at_us;                            // since 1970
  unsigned multiprocessors, memory, encoder, decoder;  // percent
};

#define SMELT_CUDA_NVML(X)                                                                                          \
  X(init, nvmlInit_v2)                                                                                              \
  X(version, nvmlSystemGetNVMLVersion, char* text, unsigned size)                                                   \
  X(device_by_uuid, nvmlDeviceGetHandleByUUID, const char* uuid, NvmlDevice* device)                                \
  X(clock, nvmlDeviceGetClockInfo, NvmlDevice device, NvmlClock which, unsigned* mhz)                               \
  X(max_clock, nvmlDeviceGetMaxClockInfo, NvmlDevice device, NvmlClock which, unsigned* mhz)                        \
  X(slowdowns, nvmlDeviceGetCurrentClocksThrottleReasons, NvmlDevice device, unsigned long long* reasons)           \
  X(temperature, nvmlDeviceGetTemperature, NvmlDevice device, NvmlSensor sensor, unsigned* celsius)                 \
  X(power, nvmlDeviceGetPowerUsage, NvmlDevice device, unsigned* milliwatts)                                        \
  X(power_limit, nvmlDeviceGetEnforcedPowerLimit, NvmlDevice device, unsigned* milliwatts)                          \
  X(utilization, nvmlDeviceGetUtilizationRates, NvmlDevice device, NvmlUtilization* percent)                        \
  X(processes, nvmlDeviceGetComputeRunningProcesses_v3, NvmlDevice device, unsigned* count, NvmlProcess* processes) \
  X(process_use, nvmlDeviceGetProcessUtilization, NvmlDevice device, NvmlProcessUse* samples, unsigned* count,      \
    unsigned long long since_us)

struct Nvml {
  const char* (*error_text)(NvmlResult result) = nullptr;  // nvmlErrorString
#define X(name, symbol, ...) NvmlResult (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_NVML(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
