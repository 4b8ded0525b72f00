// The code of oneDNN's products of floats, which is made once for a process.
#pragma once

#include <string_view>

namespace smelt::ops::onednn {

/// Whether this text of tactics names implementations that run through that code.
bool names_gemm(std::string_view tactics);
/// Has it made; else the first product does, which takes 10 to 20 ms on one core while the others wait.
void make_gemm_code();
/// The same in a thread of its own, once; a product that begins meanwhile waits for the code.
void begin_gemm_code();

}  // namespace smelt::ops::onednn
