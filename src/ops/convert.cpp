#include "ops/convert.h"

#include "base/error.h"
#include "ops/igemm/row_map.h"
#include "ops/strides.h"

namespace smelt::ops {
namespace {

template <class T> void copy(float* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i * to_stride] = static_cast<float>(from[i * from_stride]);
}

/// The axes in memory order, outermost first.
Shape ordered(const Shape& s, Layout layout) {
  if (layout != Layout::nhwc) return s;
  Shape o = s;
  o.erase(o.begin() + 1);
  o.push_back(s[1]);
  return o;
}

}  // namespace

void copy_as_f32(float* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count, DType type) {
  switch (type) {
    case DType::f32: return copy(to, to_stride, static_cast<const float*>(from), from_stride, count);
    case DType::f16: return copy(to, to_stride, static_cast<const Half*>(from), from_stride, count);
    case DType::bf16: return copy(to, to_stride, static_cast<const BFloat*>(from), from_stride, count);
    default: fail("copy_as_f32: element type {}", smelt::name(type));
  }
}

void convert_to_f32(float* to, const BoundTensor& from, const void* data, int threads) {
  const Shape extents = ordered(from.shape, from.layout), steps = ordered(memory_strides(from), from.layout);
  if (elements(extents) == 0) return;
  if (extents.empty()) return copy_as_f32(to, 1, data, 1, 1, from.type);
  const Shape outer(extents.begin(), extents.end() - 1);
  const igemm::RowMap rows(outer, Shape(steps.begin(), steps.end() - 1));
  const int64_t count = elements(outer), row = extents.back();
  const int64_t size = bytes(from.type, 1);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t r = 0; r < count; ++r) {
    copy_as_f32(to + r * row, 1, static_cast<const char*>(data) + rows.offset(r) * size, steps.back(), row, from.type);
  }
}

}  // namespace smelt::ops
