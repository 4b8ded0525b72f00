// CUDA C++ source → a cubin, by NVRTC, at run time. Needs no GPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/library.h"
#include "smelt/error.h"

namespace smelt::device::cuda {

/// What one kernel takes of a multiprocessor, as ptxas reports it.
struct KernelResources {
  std::string entry;    // the kernel's name
  int registers = 0;    // a thread
  int stack_bytes = 0;  // a thread
  int spill_store_bytes = 0, spill_load_bytes = 0;
  int static_shared_bytes = 0;  // a block
  bool operator==(const KernelResources&) const = default;
};

/// One translation unit. Its kernels are extern "C", so that their names are what they are called by.
struct Source {
  std::string name;                  // for messages: "rms_norm:bf16:4096x4096"
  std::string code;                  // may include the headers of src/kernels by "family/file.cuh"
  std::vector<std::string> options;  // beside those of compile(): "-DROWS=4", "--maxrregcount=128"
  bool operator==(const Source&) const = default;
};

struct Cubin {
  std::string bytes;  // an ELF image
  std::vector<KernelResources> kernels;
  double seconds = 0;                                           // that compiling took; 0: from the cache
  const KernelResources& kernel(std::string_view entry) const;  // throws Error (failed) for a name that it lacks
};

/// "sm_90a": what kernels are compiled for, of a device of compute capability 9.0. Architectures whose own instructions need it
/// (from 9.0 on) get the "a".
std::string arch_of(int major, int minor);
/// {9, 0} of "sm_90" or "sm_90a". Throws Error (usage) for what is no architecture or one that smelt does not know, listing
/// those.
std::pair<int, int> capability_of(std::string_view arch);
/// The architectures that smelt's kernels are written and tested for.
std::span<const std::string_view> known_archs();

/// NVRTC is missing: no kernel can be compiled.
class CompilerMissing : public Error {
 public:
  using Error::Error;
};

/// Why compile() would throw CompilerMissing; empty when NVRTC is there.
std::string compiler_missing();
/// "NVRTC 13.0", part of the key of every cubin on disk. Throws CompilerMissing (unsupported).
std::string compiler_version();
LibraryState compiler_library();
/// Throws Error (unsupported) where what compile() makes for `arch` would not run: NVRTC does not know the architecture, or the
/// driver (13000 of CUDA 13.0; 0: not known) is of an older major version and does not load what it makes. CompilerMissing.
void check_compiler(std::string_view arch, int driver);
/// Compiles for `arch`, in the calling thread; several threads may compile at once. C++20, -DNDEBUG, --use_fast_math off, fused
/// multiply-adds on. Throws Error (failed) with the first error of the log and its line of source, or with ptxas's warning where
/// it serialised wgmma or ignored setmaxnreg, unsupported where NVRTC does not know the architecture; CompilerMissing
/// (unsupported).
Cubin compile(const Source& source, std::string_view arch);
/// The same source as PTX that names the lines it is made of, for who wants to read it: nothing runs it. Throws as compile() does.
std::string compile_to_ptx(const Source& source, std::string_view arch);

}  // namespace smelt::device::cuda
