#include "plan/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace smelt::plan {
namespace {

int64_t align_up(int64_t n, int64_t alignment) {
  if (n > std::numeric_limits<int64_t>::max() - alignment) fail("a tensor of {} bytes cannot be placed", n);
  return (n + alignment - 1) / alignment * alignment;
}

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> blocks, int64_t alignment) {
  ArenaPlan plan;
  plan.offsets.assign(blocks.size(), 0);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (size_t b : order) {
    const int64_t size = align_up(blocks[b].bytes, alignment);
    if (size == 0) continue;
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (size_t p : placed) {
      if (!meet(blocks[p], blocks[b])) continue;
      const int64_t gap = plan.offsets[p] - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, plan.offsets[p] + align_up(blocks[p].bytes, alignment));
    }
    plan.offsets[b] = best >= 0 ? best : end;
    if (plan.offsets[b] > std::numeric_limits<int64_t>::max() - size) fail("the arena would take more than 2^63 bytes");
    plan.bytes = std::max(plan.bytes, plan.offsets[b] + size);
    const auto at = std::ranges::upper_bound(placed, plan.offsets[b], {}, [&](size_t p) { return plan.offsets[p]; });
    placed.insert(at, b);
  }
  return plan;
}

}  // namespace smelt::plan
