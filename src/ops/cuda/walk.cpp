#include "ops/cuda/walk.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/pointwise/walk.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {
namespace {

constexpr int64_t most = int64_t{1} << 31;  // Divider's numbers

int64_t along(const Views& views, int64_t width) { return (views.extents.back() + width - 1) / width; }

int64_t count(const Views& views, int64_t width) {
  int64_t n = along(views, width);
  for (size_t a = 0; a + 1 < views.extents.size(); ++a) n *= views.extents[a];
  return n;
}

}  // namespace

WalkArgument::WalkArgument(const Views& views, int64_t width) : chunks_(count(views, width)) {
  const Shape& extents = views.extents;
  const size_t rank = extents.size();
  append(static_cast<uint32_t>(chunks_));
  append(static_cast<uint32_t>(extents.back()));
  for (size_t a = rank - 1; a > 0; --a)
    append(Divider(static_cast<uint32_t>(std::max<int64_t>(1, a == rank - 1 ? along(views, width) : extents[a]))));
  if (rank == 1) append(Divider(1));
  bytes_.resize((bytes_.size() + 7) / 8 * 8);
  for (const Shape& strides : views.strides)
    for (const int64_t s : strides) append(s);
  const uint64_t expected = kernels::walk_bytes(static_cast<int>(rank), static_cast<int>(views.strides.size()));
  if (bytes_.size() != expected)
    fail("Walk<{}, {}> of {} bytes, expected {}", rank, views.strides.size(), bytes_.size(), expected);
}

bool WalkArgument::fits(const Views& views, int64_t width) { return count(views, width) < most && views.extents.back() < most; }

Views in_order(const Shape& extents, std::vector<Shape> views) {
  views.push_back(strides(extents));  // leads: keeps the order, and forbids no merge
  Views v = merged(extents, views, views.size() - 1);
  v.strides.pop_back();
  return v;
}

int access_step(const Shape& strides, int64_t bytes, int64_t alignment, int64_t width) {
  if (strides.back() == 0) return 0;
  if (strides.back() != 1) return -1;
  const int64_t access = std::min<int64_t>(16, width * bytes);
  bool aligned = alignment % access == 0;
  for (size_t a = 0; a + 1 < strides.size(); ++a) aligned = aligned && strides[a] * bytes % access == 0;
  return aligned ? 1 : -1;
}

int64_t widest_access(Shape strides, int64_t extent, int64_t bytes, int64_t alignment) {
  strides.push_back(1);
  int64_t width = 16 / bytes;
  while (width > 1 && (extent % width != 0 || access_step(strides, bytes, alignment, width) != 1)) width /= 2;
  return std::max<int64_t>(1, width);
}

}  // namespace smelt::ops
