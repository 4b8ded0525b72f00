// The instruction set of the CPU kernels. The build compiles each source named *.simd.cpp once for each set, in the namespaces
// smelt::base (SSE2, which every x86-64 CPU has) and smelt::avx2 (AVX2, FMA and F16C), and those that cmake/Modules.cmake lists
// once more in smelt::avx512 (AVX-512 F, BW, DQ and VL). Callers choose at run time.
//
// A *.simd.cpp may include headers of src/*/simd/ and the compiler's own, and no others: the linker could replace the copy of an
// inline function that baseline code calls by the one compiled for AVX2.
#pragma once

#include <cstdint>

namespace smelt::simd {

enum class Isa : uint8_t { base, avx2, avx512 };

/// The larger of base and avx2 that this CPU supports.
Isa best();
/// The largest set that this CPU supports, for what is compiled for all three.
Isa widest();
/// Whether this CPU has dot products of four bytes (VNNI) beside AVX-512, for sources that ask for them by an attribute.
bool has_dots();

}  // namespace smelt::simd
