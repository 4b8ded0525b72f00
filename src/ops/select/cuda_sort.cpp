#include "ops/select/cuda_sort.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "ops/cuda/source.h"

namespace smelt::ops {

int64_t LineSort::tile() const {
  const int64_t most = key_bytes == 4 ? 4096 : 2048;
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, extent)))), 64, most);
}

unsigned LineSort::threads(int64_t tile) { return static_cast<unsigned>(std::clamp<int64_t>(tile / 2, 32, 1024)); }

BufferRef LineSort::add_to(LaunchPlan& plan, const std::string& prefix) const {
  const int64_t n = tile();
  const unsigned block = threads(n);
  int64_t runs = tiles(), kept = std::min(keep, n);
  const std::string_view key = key_bytes == 4 ? "u32" : "u64";
  plan.source +=
      entry_of_text(prefix + "_tiles", block, fmt::format("{}, Item<{}>* out, u32 count, u32 tiles, u32 keep", parameters, key),
                    fmt::format("sort_tiles<{}>({}{{{}}}, out, count, tiles, keep);", n, source_type, members));
  plan.source += entry_of_text(
      prefix + "_merge", "256",
      fmt::format("const Item<{0}>* runs, Item<{0}>* out, u32 count, Divider keep, Divider per_line, u32 kept", key),
      "merge_runs(runs, out, count, keep, per_line, kept);");
  BufferRef from = plan.reserve(lines * runs * kept * item_bytes());
  Launch& first = plan.launch(prefix + "_tiles", {.grid = {static_cast<unsigned>(lines * runs), 1, 1}, .block = {block, 1, 1}});
  give(first);
  first.at(from).value(static_cast<uint32_t>(extent)).value(static_cast<uint32_t>(runs)).value(static_cast<uint32_t>(kept));
  while (runs > 1) {
    const int64_t next = std::min(keep, 2 * kept), count = lines * runs * kept;
    const BufferRef to = plan.reserve(lines * ((runs + 1) / 2) * next * item_bytes());
    // An odd run has no other to fill the place behind it.
    if (runs % 2 == 1) plan.fill(to, lines * ((runs + 1) / 2) * next * item_bytes(), 0xff);
    Launch& merge = plan.launch(prefix + "_merge", blocks_of(count, 256));
    merge.at(from).at(to).value(static_cast<uint32_t>(count)).value(Divider(static_cast<uint32_t>(kept)));
    merge.value(Divider(static_cast<uint32_t>(runs))).value(static_cast<uint32_t>(next));
    from = to, runs = (runs + 1) / 2, kept = next;
  }
  return from;
}

}  // namespace smelt::ops
