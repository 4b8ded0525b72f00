// CuTe's headers, which kernels in CuTe include: CUTLASS's, and CUDA's, which those include. They are no part of smelt: NVRTC reads them
// where they lie on the machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt::device::cuda {

struct CutlassHeaders {
  std::string version;               // "CUTLASS 4.2.0 beside CUDA 13.0's headers", part of the key of what is compiled with them
  std::vector<std::string> folders;  // that NVRTC includes from
  std::string missing;               // why there are none, and how to get them; empty where they are
};

/// Looked for once: CUTLASS in CUTLASS_PATH/include and where the wheel nvidia-cutlass has it beside NVIDIA's other wheels; CUDA's with its
/// standard library beside the folders of its libraries (library_folders()).
const CutlassHeaders& cutlass_headers();

/// The same in these folders, the first of each that has them.
CutlassHeaders find_cutlass(const std::vector<std::string>& cutlass, const std::vector<std::string>& cuda);

/// What Source::options has of code that includes CuTe's headers: compile() puts the folders in its place. It has their version, but not
/// where they lie, so that a cubin's key is the same wherever that is.
std::string cutlass_option();
bool is_cutlass_option(std::string_view text);

}  // namespace smelt::device::cuda
