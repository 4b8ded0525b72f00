// PTX, NVIDIA's intermediate code: its kernels, what they declare, and what their instructions do. The text is not trusted.
#pragma once

#include <string_view>

#include "inspect/kernel.h"

namespace smelt::inspect {

/// Whether the text says ".version" before any other directive.
bool is_ptx(std::string_view text);
/// Throws Error (failed) with the line where it ends in the middle or names what was never declared.
Image read_ptx(std::string_view text);

}  // namespace smelt::inspect
