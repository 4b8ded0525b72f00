// The choice among functions that are compiled for every instruction set.
#pragma once

#include "expr/simd/isa.h"

namespace smelt::simd {

/// What the function for the largest set gives that this CPU supports.
template <class T> T widest_of(T (*base)(), T (*avx2)(), T (*avx512)()) {
  const Isa isa = widest();
  return isa == Isa::avx512 ? avx512() : isa == Isa::avx2 ? avx2() : base();
}

}  // namespace smelt::simd
