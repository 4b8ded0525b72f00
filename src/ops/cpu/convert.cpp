#include "ops/cpu/convert.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

template <class T> void copy(float* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i * to_stride] = static_cast<float>(from[i * from_stride]);
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
