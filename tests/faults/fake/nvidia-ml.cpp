// NVML over a GPU whose multiprocessors run at 1410 of 1980 MHz for want of power.
#include "device/cuda/abi/nvml.h"

#include <cstdio>

namespace abi = smelt::device::cuda::abi;

#define CALL(name, ...) extern "C" __attribute__((visibility("default"))) abi::NvmlResult name(__VA_ARGS__)

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(abi::NvmlResult) { return "made up"; }
CALL(nvmlInit_v2) { return abi::nvml_success; }
CALL(nvmlSystemGetNVMLVersion, char* text, unsigned size) { return std::snprintf(text, size, "13.580"), abi::nvml_success; }
CALL(nvmlDeviceGetHandleByUUID, const char*, abi::NvmlDevice* device) { return *device = nullptr, abi::nvml_success; }
CALL(nvmlDeviceGetClockInfo, abi::NvmlDevice, abi::NvmlClock, unsigned* mhz) { return *mhz = 1410, abi::nvml_success; }
CALL(nvmlDeviceGetMaxClockInfo, abi::NvmlDevice, abi::NvmlClock, unsigned* mhz) { return *mhz = 1980, abi::nvml_success; }
CALL(nvmlDeviceGetCurrentClocksThrottleReasons, abi::NvmlDevice, unsigned long long* reasons) {
  return *reasons = abi::nvml_power_cap, abi::nvml_success;
}
CALL(nvmlDeviceGetTemperature, abi::NvmlDevice, abi::NvmlSensor, unsigned* celsius) { return *celsius = 60, abi::nvml_success; }
CALL(nvmlDeviceGetPowerUsage, abi::NvmlDevice, unsigned* milliwatts) { return *milliwatts = 700'000, abi::nvml_success; }
CALL(nvmlDeviceGetEnforcedPowerLimit, abi::NvmlDevice, unsigned* milliwatts) { return *milliwatts = 700'000, abi::nvml_success; }
CALL(nvmlDeviceGetUtilizationRates, abi::NvmlDevice, abi::NvmlUtilization* percent) { return *percent = {}, abi::nvml_success; }
CALL(nvmlDeviceGetComputeRunningProcesses_v3, abi::NvmlDevice, unsigned* count, abi::NvmlProcess*) {
  return *count = 0, abi::nvml_success;
}
/// Process 77 has 30 and 50% of the multiprocessors.
CALL(nvmlDeviceGetProcessUtilization, abi::NvmlDevice, abi::NvmlProcessUse* samples, unsigned* count, unsigned long long since) {
  if (samples) samples[0] = {77, since + 1, 30, 5, 0, 0}, samples[1] = {77, since + 2, 50, 5, 0, 0};
  return *count = 2, samples ? abi::nvml_success : abi::nvml_insufficient_size;
}
