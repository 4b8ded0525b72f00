// A cubin's kernels: the ELF file that NVIDIA's compilers write, read without any of their tools. The file is not trusted.
#pragma once

#include <string_view>

#include "inspect/kernel.h"

namespace smelt::inspect {

/// Whether these are the first bytes of an ELF file.
bool is_elf(std::string_view bytes);
/// Throws Error (failed), which says where the file ends or contradicts itself, and Error (unsupported) for ELF files of other
/// machines.
Image read_cubin(std::string_view bytes);

}  // namespace smelt::inspect
