#include "ops/strides.h"

#include "base/error.h"

namespace smelt::ops {

Shape memory_strides(const BoundTensor& t) {
  if (!t.strides.empty()) return t.strides;
  if (t.layout == Layout::plain) return strides(t.shape);
  if (t.layout != Layout::nhwc) fail("memory_strides: a blocked layout has no strides");
  Shape s(t.shape.size());
  int64_t step = t.shape[1];
  s[1] = 1;
  for (size_t axis = t.shape.size(); axis-- > 2;) {
    s[axis] = step;
    step *= t.shape[axis];
  }
  s[0] = step;
  return s;
}

Shape broadcast_strides(const BoundTensor& t, size_t rank) {
  const Shape own = memory_strides(t);
  Shape s(rank, 0);
  const size_t shift = rank - own.size();
  for (size_t i = 0; i < own.size(); ++i) s[i + shift] = t.shape[i] == 1 ? 0 : own[i];
  return s;
}

bool is_dense(const BoundTensor& t) {
  if (t.strides.empty()) return true;
  BoundTensor dense = t;
  dense.strides.clear();
  const Shape want = memory_strides(dense);
  for (size_t i = 0; i < want.size(); ++i) {
    if (t.shape[i] != 1 && t.strides[i] != want[i]) return false;
  }
  return true;
}

}  // namespace smelt::ops
