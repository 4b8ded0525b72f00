#include "ops/select/cuda_sort.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "kernels/sort/sort.h"
#include "ops/cuda/source.h"

namespace smelt::ops {

int64_t LineSort::tile() const {
  int64_t most = key_bytes == 4 ? 4096 : 2048;
  while (most > 1024 && lines * ((extent + most - 1) / most) < blocks) most /= 2;
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, extent)))), 64, most);
}

unsigned LineSort::threads(int64_t tile) { return static_cast<unsigned>(std::clamp<int64_t>(tile / 2, 32, 1024)); }

BufferRef LineSort::add_to(LaunchPlan& plan, const std::string& prefix) const {
  const int64_t n = tile();
  const unsigned block = threads(n);
  int64_t runs = tiles(), kept = std::min(keep, n);
  const KernelEntry sort_tiles{prefix + "_tiles", std::to_string(block), fmt::format("SortArgs<{}>", source),
                               fmt::format("sort_tiles<{}>", n)};
  const KernelEntry merge_runs{prefix + "_merge", "256", fmt::format("MergeArgs<{}>", key()), "merge_runs"};
  BufferRef from = plan.reserve(lines * runs * kept * item_bytes());
  const kernels::SortedTiles<void> a{
      .extent = static_cast<uint32_t>(extent), .tiles = static_cast<uint32_t>(runs), .keep = static_cast<uint32_t>(kept)};
  Launch& first = plan.launch(sort_tiles, {.grid = {lines * runs, 1, 1}, .block = {block, 1, 1}});
  first.args(a, {{a.out, from}});
  give(first);
  while (runs > 1) {
    const int64_t next = std::min(keep, 2 * kept), count = lines * runs * kept;
    const BufferRef to = plan.reserve(lines * ((runs + 1) / 2) * next * item_bytes());
    // An odd run has no other to fill the place behind it.
    if (runs % 2 == 1) plan.fill(to, lines * ((runs + 1) / 2) * next * item_bytes(), 0xff);
    const kernels::MergeArgs<void> m{.keep = Divider(static_cast<uint32_t>(kept)),
                                     .per_line = Divider(static_cast<uint32_t>(runs)),
                                     .count = static_cast<uint32_t>(count),
                                     .kept = static_cast<uint32_t>(next)};
    plan.launch(merge_runs, blocks_of(count, 256)).args(m, {{m.runs, from}, {m.out, to}});
    from = to, runs = (runs + 1) / 2, kept = next;
  }
  return from;
}

}  // namespace smelt::ops
