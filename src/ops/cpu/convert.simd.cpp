#include "ops/cpu/simd/convert.h"
#include "expr/simd/half.h"
#include "expr/simd/reduce.h"

namespace smelt::SMELT_ISA {
namespace {

template <class H> void convert(float* to, const uint16_t* from, int64_t n) {
  const H* bits = reinterpret_cast<const H*>(from);
  for_registers(n, [&](int64_t i, int64_t count) { put(to + i, get(bits + i, count), count); });
}

}  // namespace

void run_as_f32(float* to, const uint16_t* from, int64_t n, simd::FloatKind kind) {
  (kind == simd::FloatKind::f16 ? convert<HalfBits> : convert<BFloatBits>)(to, from, n);
}

}  // namespace smelt::SMELT_ISA
