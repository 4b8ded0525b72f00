#include "plan/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"

namespace smelt::plan {
namespace {

int64_t align_up(int64_t n, int64_t alignment) {
  if (n > std::numeric_limits<int64_t>::max() - alignment) fail("a tensor of {} bytes cannot be placed", n);
  return (n + alignment - 1) / alignment * alignment;
}

/// For each block those that are alive at the same time as it, one list after the other.
class Neighbours {
 public:
  /// Nothing where there are more than `most` pairs.
  static std::optional<Neighbours> find(std::span<const Lifetime> blocks, size_t most) {
    std::vector<size_t> order(blocks.size()), alive;
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t b) { return blocks[b].first; });
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (size_t b : order) {
      std::erase_if(alive, [&](size_t a) { return blocks[a].last < blocks[b].first; });
      if (pairs.size() + alive.size() > most) return std::nullopt;
      for (size_t a : alive)
        if (blocks[b].first <= blocks[b].last) pairs.emplace_back(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
      alive.push_back(b);
    }
    Neighbours n;
    n.begin_.assign(blocks.size() + 1, 0);
    for (const auto& [a, b] : pairs) ++n.begin_[a + 1], ++n.begin_[b + 1];
    std::partial_sum(n.begin_.begin(), n.begin_.end(), n.begin_.begin());
    n.all_.resize(2 * pairs.size());
    std::vector<size_t> next(n.begin_.begin(), n.begin_.end() - 1);
    for (const auto& [a, b] : pairs) n.all_[next[a]++] = b, n.all_[next[b]++] = a;
    return n;
  }
  std::span<const uint32_t> of(size_t block) const {
    return std::span(all_).subspan(begin_[block], begin_[block + 1] - begin_[block]);
  }

 private:
  std::vector<size_t> begin_;
  std::vector<uint32_t> all_;
};

/// Puts each block, the largest first, into the smallest gap that fits between those that it meets.
void place_by_size(std::span<const Lifetime> blocks, const Neighbours& neighbours, int64_t alignment, ArenaPlan& plan) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<bool> placed(blocks.size(), false);
  std::vector<size_t> met;  // by offset
  for (size_t b : order) {
    const int64_t size = align_up(blocks[b].bytes, alignment);
    if (size == 0) continue;
    met.clear();
    for (uint32_t p : neighbours.of(b))
      if (placed[p]) met.push_back(p);
    std::ranges::sort(met, {}, [&](size_t p) { return plan.offsets[p]; });
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (size_t p : met) {
      const int64_t gap = plan.offsets[p] - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, plan.offsets[p] + align_up(blocks[p].bytes, alignment));
    }
    plan.offsets[b] = best >= 0 ? best : end;
    placed[b] = true;
  }
}

/// Follows the steps: what begins takes the smallest gap that fits among those that ended blocks left.
void place_by_time(std::span<const Lifetime> blocks, int64_t alignment, ArenaPlan& plan) {
  std::vector<size_t> begin(blocks.size());
  std::iota(begin.begin(), begin.end(), size_t{0});
  std::vector<size_t> end = begin;
  std::ranges::stable_sort(begin, [&](size_t a, size_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : blocks[a].bytes > blocks[b].bytes;
  });
  std::ranges::stable_sort(end, {}, [&](size_t b) { return blocks[b].last; });
  std::map<int64_t, int64_t> gaps;                // by offset: their sizes
  std::set<std::pair<int64_t, int64_t>> by_size;  // size, offset
  int64_t top = 0;
  const auto remove = [&](std::map<int64_t, int64_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    return gaps.erase(gap);
  };
  const auto add = [&](int64_t offset, int64_t size) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + size) {
      size += next->second;
      next = remove(next);
    }
    if (next != gaps.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      offset = std::prev(next)->first;
      size += std::prev(next)->second;
      remove(std::prev(next));
    }
    if (offset + size == top) {
      top = offset;
      return;
    }
    gaps.emplace(offset, size);
    by_size.emplace(size, offset);
  };
  size_t ended = 0;
  for (size_t b : begin) {
    const int64_t size = align_up(blocks[b].bytes, alignment);
    if (size == 0) continue;
    for (; ended < end.size() && blocks[end[ended]].last < blocks[b].first; ++ended)
      if (const int64_t gone = align_up(blocks[end[ended]].bytes, alignment); gone > 0) add(plan.offsets[end[ended]], gone);
    const auto fits = by_size.lower_bound({size, 0});
    if (fits == by_size.end()) {
      if (top > std::numeric_limits<int64_t>::max() - size) fail("the arena would take more than 2^63 bytes");
      plan.offsets[b] = top;
      top += size;
      continue;
    }
    const auto [found, offset] = *fits;
    remove(gaps.find(offset));
    plan.offsets[b] = offset;
    if (found > size) add(offset + size, found - size);
  }
}

// 8 bytes for each; 4000 blocks that all meet have so many, and place_by_size does that in half a second.
constexpr size_t most_pairs = 8'000'000;

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> blocks, int64_t alignment) {
  ArenaPlan plan;
  plan.offsets.assign(blocks.size(), 0);
  if (const auto neighbours = Neighbours::find(blocks, most_pairs))
    place_by_size(blocks, *neighbours, alignment, plan);
  else
    place_by_time(blocks, alignment, plan);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int64_t size = align_up(blocks[b].bytes, alignment);
    if (plan.offsets[b] > std::numeric_limits<int64_t>::max() - size) fail("the arena would take more than 2^63 bytes");
    plan.bytes = std::max(plan.bytes, plan.offsets[b] + size);
  }
  return plan;
}

}  // namespace smelt::plan
