// The instructions of a cubin, where NVIDIA's nvdisasm is installed.
#pragma once

#include <string>
#include <string_view>

#include "inspect/kernel.h"

namespace smelt::inspect {

/// What `nvdisasm -g -c` prints of a cubin: the code of each kernel, by its name.
std::map<std::string, Code> read_sass(std::string_view listing);
/// Whether nvdisasm is on PATH.
bool has_disassembler();
/// Gives the kernels of a cubin's file their code by nvdisasm of PATH. False where that is not installed or does not know the
/// architecture; the kernels stay as they are then.
bool add_sass(Image& image, const std::string& file);

}  // namespace smelt::inspect
