#include "expr/simd/isa.h"

#include <cpuid.h>

namespace smelt::simd {
namespace {

/// Conversions of 16-bit floats, which clang++ 14 cannot ask for by name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

}  // namespace

Isa best() {
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return avx2 ? Isa::avx2 : Isa::base;
}

Isa widest() {
  static const bool avx512 = best() == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : best();
}

bool has_dots() {
  static const bool dots = widest() == Isa::avx512 && __builtin_cpu_supports("avx512vnni");
  return dots;
}

}  // namespace smelt::simd
