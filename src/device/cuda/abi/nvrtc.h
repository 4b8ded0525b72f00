// What smelt uses of NVRTC's interface (nvrtc.h, "CUDA Runtime Compilation"), declared here so that a build needs no CUDA
// toolkit.
#pragma once

#include <cstddef>

struct _nvrtcProgram;  // NVIDIA's name: the test of this header compares the types. NOLINT(bugprone-reserved-identifier)

namespace smelt::device::cuda::abi {

using NvrtcResult = int;  // nvrtcResult; 0 is success
using NvrtcProgram = _nvrtcProgram*;
enum NvrtcResultCode : NvrtcResult { nvrtc_success = 0, nvrtc_invalid_option = 5 };

#define SMELT_CUDA_NVRTC(X)                                                                               \
  X(version, nvrtcVersion, int* major, int* minor)                                                        \
  X(supported_count, nvrtcGetNumSupportedArchs, int* count)                                               \
  X(supported, nvrtcGetSupportedArchs, int* architectures)                                                \
  X(create, nvrtcCreateProgram, NvrtcProgram* program, const char* source, const char* name, int headers, \
    const char* const* header_sources, const char* const* header_names)                                   \
  X(destroy, nvrtcDestroyProgram, NvrtcProgram* program)                                                  \
  X(compile, nvrtcCompileProgram, NvrtcProgram program, int options, const char* const* option)           \
  X(log_size, nvrtcGetProgramLogSize, NvrtcProgram program, size_t* bytes)                                \
  X(log, nvrtcGetProgramLog, NvrtcProgram program, char* log)                                             \
  X(cubin_size, nvrtcGetCUBINSize, NvrtcProgram program, size_t* bytes)                                   \
  X(cubin, nvrtcGetCUBIN, NvrtcProgram program, char* cubin)                                              \
  X(ptx_size, nvrtcGetPTXSize, NvrtcProgram program, size_t* bytes)                                       \
  X(ptx, nvrtcGetPTX, NvrtcProgram program, char* ptx)

struct Nvrtc {
  const char* (*error_text)(NvrtcResult result) = nullptr;  // nvrtcGetErrorString
#define X(name, symbol, ...) NvrtcResult (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUDA_NVRTC(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
