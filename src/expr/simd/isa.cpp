#include "expr/simd/isa.h"

namespace smelt::simd {

Isa best() {
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return avx2 ? Isa::avx2 : Isa::base;
}

}  // namespace smelt::simd
