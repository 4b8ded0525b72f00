// What smelt uses of NVTX (nvtx3/nvToolsExt.h, "NVIDIA Tools Extension"). NVTX has no library of its own: a tool gives one, which
// fills in tables of functions that the program calls from then on. Declared here so that a build needs no CUDA toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

struct nvtxDomainRegistration_st;

namespace smelt::device::cuda::abi {

using NvtxDomain = nvtxDomainRegistration_st*;
using NvtxFunction = void (*)();
enum NvtxTableId : uint32_t { nvtx_table_callbacks = 1, nvtx_table_version = 3 };                // NvtxExportTableID
enum NvtxModule : int { nvtx_module_core2 = 5 };                                                 // NvtxCallbackModule
enum NvtxCore2 : unsigned { nvtx_range_push = 4, nvtx_range_pop = 5, nvtx_domain_create = 12 };  // NvtxCallbackIdCore2
/// One past the last function of each module; functions are counted from 1.
inline constexpr unsigned nvtx_module_sizes[] = {0, 16, 9, 15, 7, 16, 7};
inline constexpr uint16_t nvtx_version = 3;

struct NvtxAttributes {  // nvtxEventAttributes_t
  uint16_t version = nvtx_version, bytes = 48;
  uint32_t category = 0;
  int32_t colour_type = 0;
  uint32_t colour = 0;
  int32_t payload_type = 0, reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;  // characters
  const char* message = nullptr;
};
static_assert(sizeof(NvtxAttributes) == 48);

struct NvtxCallbacks {  // NvtxExportTableCallbacks
  size_t bytes;
  /// The addresses of a module's functions, for the tool to write to; 0 for a module that there is not.
  int (*table)(NvtxModule module, NvtxFunction*** functions, unsigned* count);
};
struct NvtxVersion {  // NvtxExportTableVersionInfo
  size_t bytes;
  uint32_t version, reserved;
  void (*set_tools_version)(uint32_t version);
};

using NvtxTables = const void* (*)(NvtxTableId id);
/// InitializeInjectionNvtx2 of a tool's library; 0 where it does not want to listen.
using NvtxInitialize = int (*)(NvtxTables tables);
using NvtxDomainCreate = NvtxDomain (*)(const char* name);
using NvtxRangePush = int (*)(NvtxDomain domain, const NvtxAttributes* attributes);
using NvtxRangePop = int (*)(NvtxDomain domain);

}  // namespace smelt::device::cuda::abi
