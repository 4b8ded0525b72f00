#include "ops/select/cuda_sort.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace smelt::ops {

int64_t LineSort::tile() const {
  const int64_t most = key_bytes == 4 ? 4096 : 2048;
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, extent)))), 64, most);
}

unsigned LineSort::threads(int64_t tile) { return static_cast<unsigned>(std::clamp<int64_t>(tile / 2, 32, 1024)); }

Place LineSort::add_to(LaunchPlan& plan, const std::string& prefix) const {
  const int64_t n = tile();
  const unsigned block = threads(n);
  int64_t runs = tiles(), kept = std::min(keep, n);
  plan.source += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({0}) {1}_tiles({2}, Item<{3}>* out, u32 count, u32 tiles, "
      "u32 keep) {{\n  sort_tiles<{4}>({5}{{{6}}}, out, count, tiles, keep);\n}}\n",
      block, prefix, parameters, key_bytes == 4 ? "u32" : "u64", n, source_type, members);
  plan.source += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__(256) {0}_merge(const Item<{1}>* runs, Item<{1}>* out, "
      "u32 count, Divider keep, Divider per_line, u32 kept) {{\n  merge_runs(runs, out, count, keep, per_line, kept);\n}}\n",
      prefix, key_bytes == 4 ? "u32" : "u64");
  Place from = plan.reserve(lines * runs * kept * item_bytes());
  Launch& first = plan.launch(prefix + "_tiles", {.grid = {static_cast<unsigned>(lines * runs), 1, 1}, .block = {block, 1, 1}});
  give(first);
  first.at(from).value(static_cast<uint32_t>(extent)).value(static_cast<uint32_t>(runs)).value(static_cast<uint32_t>(kept));
  while (runs > 1) {
    const int64_t next = std::min(keep, 2 * kept), count = lines * runs * kept;
    const Place to = plan.reserve(lines * ((runs + 1) / 2) * next * item_bytes());
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
