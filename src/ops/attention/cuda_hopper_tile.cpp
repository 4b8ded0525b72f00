#include "ops/attention/cuda_hopper_tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace smelt::ops {
namespace {

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to; }

constexpr int64_t chunk = 64, line = 128;

/// Registers that a thread may have where a multiprocessor holds so many warps: each of its four parts has 16384 for its own.
int64_t registers_of_thread(int64_t warps) { return std::min<int64_t>(16384 / 32 / up(warps, 4) / 8 * 8, 255); }

// Of a multiprocessor of an H200, fitted to 177 timings of 11 problems (13% off in the mean); they only rank candidates. Products of two
// numbers, powers of two and rows of 128 bytes copied in a microsecond; the part of the lesser of the first two that the greater does
// not hide; microseconds of a launch, and of a block's begin and end.
constexpr double products_us = 3e6, powers_us = 20e3, rows_us = 350, not_hidden = 0.7, launch = 2.5, beside_tiles = 1;

/// Rows of 128 bytes that a row of so many columns is as long to copy as. One of 64 bytes takes less: [4, 16, 1024, 32] with a causal mask
/// by tiles of 64 rows and 64 keys, which copies 390 of them a microsecond, takes 25 us, not the 33 that 350 would.
double rows_copied(int64_t columns) { return columns <= 32 ? 0.6 : static_cast<double>(up(columns, chunk)); }

}  // namespace

int64_t HopperAttentionTile::row_tiles_of(const AttentionShape& s) const { return up(s.queries, rows()); }

int64_t HopperAttentionTile::blocks_of(const AttentionShape& s) const { return s.batch * s.heads * row_tiles_of(s); }

int64_t HopperAttentionTile::shared_bytes(const AttentionShape& s) const {
  const int64_t depth = up(s.depth, chunk), values = up(s.value_depth, chunk);
  return 1024 + rows() * (persistent ? depth + values : std::max(depth, values)) * line +
         stages * (depth + values) * keys * line + up(16 * groups + 32 * stages, 128) * 128;
}

int64_t HopperAttentionTile::registers_held(const AttentionShape& s, MaskKind mask) const {
  const bool odd = up(s.depth, chunk) == 3 || up(s.value_depth, chunk) == 3;  // chunks: the compiler keeps more addresses
  return keys / 2 + keys / 4 + up(s.value_depth, 16) * 8 + (odd ? 44 : 32) + (mask == MaskKind::program ? 56 : 0);
}

double HopperAttentionTile::estimate_us(const AttentionShape& s, MaskKind mask, const Gpu& gpu) const {
  const int64_t processors = std::max(1, gpu.info.multiprocessors), all = blocks_of(s), full = all / (processors * blocks);
  const double tiles = static_cast<double>(up(s.keys, keys)) * (mask == MaskKind::causal ? 0.6 : 1);
  const double scores = static_cast<double>(rows() * keys);
  const double products = scores * static_cast<double>(up(s.depth, 16) * 16 + s.value_depth) / products_us;
  const double powers = scores * (mask == MaskKind::program ? 2 : 1) / powers_us;
  const double copies = static_cast<double>(keys) * (rows_copied(s.depth) + rows_copied(s.value_depth)) / rows_us;
  const auto wave = [&](int64_t together) {  // blocks on a multiprocessor
    const double hidden = together * groups > 1 ? (1 - not_hidden) * std::min(products, powers) : 0;
    return std::max(products + powers - hidden, copies) * static_cast<double>(together) * tiles + beside_tiles;
  };
  const int64_t rest = all - full * processors * blocks;
  const double hidden = persistent ? 0.5 * beside_tiles * static_cast<double>(full) : 0;
  return launch + static_cast<double>(full) * wave(blocks) + (rest > 0 ? wave(up(rest, processors)) : 0) - hidden;
}

std::string HopperAttentionTile::config() const {
  std::string text = fmt::format("m{} n{} s{}", rows(), keys, stages);
  if (blocks > 1) text += fmt::format(" b{}", blocks);
  return persistent ? text + " p" : text;
}

std::vector<HopperAttentionTile> hopper_attention_tiles(const AttentionShape& s, MaskKind mask, const Gpu& gpu) {
  // One group, and several blocks a multiprocessor, where rows are few or lengths short; else groups that share keys.
  constexpr std::pair<int64_t, int64_t> shapes[] = {{1, 64}, {1, 80}, {1, 128}, {2, 128}, {2, 160}, {3, 96}, {3, 128}};
  std::vector<HopperAttentionTile> list;
  for (const auto& shape : shapes) {
    const int64_t groups = shape.first, most = shape.second;
    if (groups > 1 && 64 * (groups - 1) >= s.queries) continue;  // a group would have no rows
    HopperAttentionTile t{.groups = groups};
    const auto fits = [&] {
      const int64_t warps = t.blocks * t.threads() / 32, held = t.registers_held(s, mask);
      // The compiler fits each instruction, with its sums, into what a thread has at launch.
      const int64_t launched = registers_of_thread(warps), sums = std::max(t.keys / 2, up(s.value_depth, 16) * 8);
      return held <= (groups == 1 ? launched : t.registers()) && sums + 32 <= launched &&
             t.blocks * (t.shared_bytes(s) + 1024) <= gpu.info.shared_per_multiprocessor;
    };
    for (int64_t limit = most; limit >= 16; limit -= 16) {  // until the registers and the memory are there
      t.keys = up(up(s.keys, up(s.keys, limit)), 16) * 16;  // tiles of one size
      if (fits()) break;
    }
    if (!fits() || t.blocks_of(s) >= int64_t{1} << 31) continue;
    if (std::ranges::any_of(list, [&](const auto& x) { return x.groups == groups && x.keys == t.keys; })) continue;
    for (t.blocks = groups == 1 ? 3 : 1; t.blocks > 1 && !fits();) --t.blocks;
    // A block goes over the rows of several where no mask makes some of them longer; deeper rows leave no memory for the next ones.
    t.persistent = groups == 1 && mask == MaskKind::none && std::max(s.depth, s.value_depth) <= chunk &&
                   t.blocks_of(s) > t.blocks * gpu.info.multiprocessors;
    if (!fits()) t.persistent = false;
    list.push_back(t);
  }
  return list;
}

}  // namespace smelt::ops
