// Which instruction set the CPU kernels run with. Sources named *.simd.cpp are compiled once for each set, in the
// namespace smelt::base (any x86-64: SSE2) and smelt::avx2 (AVX2, FMA and F16C); callers choose at run time.
//
// A *.simd.cpp includes only headers of src/*/simd/ and the compiler's own: an inline function of any other header could be
// merged by the linker with the copy that baseline code calls.
#pragma once

#include <cstdint>

namespace smelt::simd {

enum class Isa : uint8_t { base, avx2 };

/// The best set that this CPU has.
Isa best();

}  // namespace smelt::simd
