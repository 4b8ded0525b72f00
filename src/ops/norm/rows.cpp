#include "ops/norm/rows.h"

#include "expr/simd/isa.h"

namespace smelt::ops {

namespace {

const NormRows& table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::norm_rows();
  return simd::best() == simd::Isa::avx2 ? avx2::norm_rows() : base::norm_rows();
}

}  // namespace

const NormRow* norm_row(DType t) {
  const NormRows& rows = table();
  switch (t) {
    case DType::f32: return &rows.f32;
    case DType::f16: return &rows.f16;
    case DType::bf16: return &rows.bf16;
    case DType::f64: return &rows.f64;
    default: return nullptr;
  }
}

ShortRows short_rows() { return table().short_f32; }

}  // namespace smelt::ops
