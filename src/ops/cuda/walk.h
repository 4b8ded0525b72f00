// Strided views as a kernel's argument: src/kernels/pointwise/walk.h.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/core/strides.h"

namespace smelt::ops {

/// kernels::Walk<rank, views> for a rank and a number of views known at run time, as it lies in memory.
class WalkArgument {
 public:
  /// The views' elements in chunks of `width` along the innermost axis.
  WalkArgument(const Views& views, int64_t width);
  int64_t chunks() const { return chunks_; }
  const void* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  /// Why there can be none: more chunks than a kernel counts.
  static bool fits(const Views& views, int64_t width);

 private:
  template <class T> void append(const T& value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  }
  int64_t chunks_ = 0;
  std::vector<std::byte> bytes_;
};

/// Views of one shape, neighbouring axes merged where all of them allow; unlike merged() in the axes' own order, so that an index
/// over all of them counts as it does over the shape.
Views in_order(const Shape& extents, std::vector<Shape> strides);

/// How load<Step> and store<Step> take a view whose innermost elements are `strides.back()` apart, for accesses of `width`
/// elements of `bytes` each: 1 contiguous and aligned, 0 one element for all, -1 neither. `alignment`: of its first element.
int access_step(const Shape& strides, int64_t bytes, int64_t alignment, int64_t width);

/// Elements of the widest access, 16 bytes at most, that divides an axis of `extent` elements side by side, each axis' first
/// `strides` elements from the one before; `bytes` of an element, `alignment` of the tensor.
int64_t widest_access(Shape strides, int64_t extent, int64_t bytes, int64_t alignment);

}  // namespace smelt::ops
