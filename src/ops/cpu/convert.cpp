#include "ops/cpu/convert.h"

#include <algorithm>

#include "base/error.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd/convert.h"

namespace smelt::ops {
namespace {

/// By runs that the instruction set converts; elements that lie apart are brought together first.
void copy_halves(float* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t count, simd::FloatKind kind) {
  const auto convert = simd::best() == simd::Isa::avx2 ? avx2::run_as_f32 : base::run_as_f32;
  if (to_stride == 1 && from_stride == 1) return convert(to, from, count, kind);
  constexpr int64_t at_once = 128;
  uint16_t together[at_once];
  float made[at_once];
  for (int64_t begin = 0; begin < count; begin += at_once) {
    const int64_t n = std::min(at_once, count - begin);
    for (int64_t i = 0; i < n; ++i) together[i] = from[(begin + i) * from_stride];
    convert(made, together, n, kind);
    for (int64_t i = 0; i < n; ++i) to[(begin + i) * to_stride] = made[i];
  }
}

}  // namespace

void copy_as_f32(float* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count, DType type) {
  const auto* halves = static_cast<const uint16_t*>(from);
  switch (type) {
    case DType::f32:
      for (int64_t i = 0; i < count; ++i) to[i * to_stride] = static_cast<const float*>(from)[i * from_stride];
      return;
    case DType::f16: return copy_halves(to, to_stride, halves, from_stride, count, simd::FloatKind::f16);
    case DType::bf16: return copy_halves(to, to_stride, halves, from_stride, count, simd::FloatKind::bf16);
    default: fail("copy_as_f32: element type {}", smelt::name(type));
  }
}

ConvertToF32::ConvertToF32(const BoundTensor& from, int threads) : type_(from.type), size_(bytes(from.type, 1)) {
  // The axes in memory order, outermost first.
  Shape extents = from.shape, steps = memory_strides(from);
  if (from.layout == Layout::nhwc) {
    for (Shape* s : {&extents, &steps}) std::rotate(s->begin() + 1, s->begin() + 2, s->end());
  }
  if (extents.empty()) extents = steps = {1};
  row_ = extents.back();
  step_ = steps.back();
  extents.pop_back();
  steps.pop_back();
  constexpr int64_t long_enough = 1024;  // of a row: what calls take is nothing beside it, and threads share the others
  while (!extents.empty() && row_ < long_enough && steps.back() == row_ * step_) {
    row_ *= extents.back();
    extents.pop_back();
    steps.pop_back();
  }
  count_ = row_ == 0 ? 0 : elements(extents);
  rows_ = igemm::RowMap(extents, steps);
  threads_ = useful_threads(threads, count_ * row_);
  if (type_ != DType::f32) workspace_ = aligned(count_ * row_ * 4);
}

const float* ConvertToF32::into_f32(const void* data, char*& memory) const {
  if (workspace_ == 0) return static_cast<const float*>(data);
  float* to = reinterpret_cast<float*>(memory);
  run(to, data);
  memory += workspace_;
  return to;
}

void ConvertToF32::run(float* to, const void* data) const {
  parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      copy_as_f32(to + r * row_, 1, static_cast<const char*>(data) + rows_.offset(r) * size_, step_, row_, type_);
    }
  });
}

}  // namespace smelt::ops
