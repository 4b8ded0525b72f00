#include "ops/attention/cuda_hopper_tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace smelt::ops {
namespace {

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to; }

/// Registers that a thread may have where a multiprocessor holds so many warps: each of its four parts has 16384 for its own.
int64_t registers_of_thread(int64_t warps) { return std::min<int64_t>(16384 / 32 / up(warps, 4) / 8 * 8, 255); }

// Of a multiprocessor of an H200, fitted to 177 timings of 11 problems (13% off in the mean); they only rank candidates. Products of two
// numbers, powers of two and rows of 128 bytes copied in a microsecond; the part of the lesser of the first two that the greater does
// not hide; microseconds of a launch, and of a block's begin and end.
constexpr double products_us = 3e6, powers_us = 20e3, rows_us = 350, not_hidden = 0.7, launch = 2.5, beside_tiles = 1,
                 adding_up = 0.3;

/// Rows of 128 bytes that a row of so many columns is as long to copy as. One of 64 bytes takes less: [4, 16, 1024, 32] with a causal mask
/// by tiles of 64 rows and 64 keys, which copies 390 of them a microsecond, takes 25 us, not the 33 that 350 would.
double rows_copied(int64_t columns) { return columns <= 32 ? 0.6 : static_cast<double>(up(columns, 64)); }

/// HopperAttention::columns: of O.
int64_t sums_columns(int64_t depth) { return depth <= 80 || depth % 16 == 0 ? depth : depth + 8; }

}  // namespace

int64_t hopper_attention_columns(const AttentionShape& s) { return std::max(s.depth, s.value_depth) <= 32 ? 32 : 64; }

int64_t HopperAttentionTile::row_tiles_of(const AttentionShape& s) const { return up(s.queries, rows()); }

int64_t HopperAttentionTile::blocks_of(const AttentionShape& s) const { return s.batch * s.heads * row_tiles_of(s); }

int64_t HopperAttentionTile::shared_bytes(const AttentionShape& s) const {
  const int64_t columns = hopper_attention_columns(s), line = 2 * columns;
  const int64_t depth = up(s.depth, columns), values = up(s.value_depth, columns);
  return 1024 + rows() * (persistent ? depth + values : std::max(depth, values)) * line +
         stages * (depth + values) * keys * line + up(16 * groups + 32 * stages, 128) * 128 +
         (shared_rows ? (groups - 1) * (sums_columns(s.value_depth) / 2 + 4) * 128 * 4 : 0);
}

int64_t HopperAttentionTile::registers_held(const AttentionShape& s, MaskKind mask) const {
  const int64_t columns = hopper_attention_columns(s);
  const bool odd = up(s.depth, columns) == 3 || up(s.value_depth, columns) == 3;  // chunks: the compiler keeps more addresses
  return keys / 2 + keys / 4 + up(s.value_depth, 16) * 8 + (odd ? 44 : 32) + (mask == MaskKind::program ? 56 : 0);
}

double HopperAttentionTile::estimate_us(const AttentionShape& s, MaskKind mask, const Gpu& gpu) const {
  const int64_t processors = std::max(1, gpu.info.multiprocessors), all = blocks_of(s), full = all / (processors * blocks);
  const int64_t at_a_time = shared_rows ? groups : 1;  // tiles of keys
  const double tiles = static_cast<double>(up(up(s.keys, keys), at_a_time)) * (mask == MaskKind::causal ? 0.6 : 1);
  const double scores = static_cast<double>(rows() * keys * at_a_time);
  const double products = scores * static_cast<double>(up(s.depth, 16) * 16 + s.value_depth) / products_us;
  const double powers = scores * (mask == MaskKind::program ? 2 : 1) / powers_us;
  const double copies = static_cast<double>(keys * at_a_time) * (rows_copied(s.depth) + rows_copied(s.value_depth)) / rows_us;
  const auto wave = [&](int64_t together) {  // blocks on a multiprocessor
    const double hidden = together * groups > 1 ? (1 - not_hidden) * std::min(products, powers) : 0;
    return std::max(products + powers - hidden, copies) * static_cast<double>(together) * tiles + beside_tiles;
  };
  const int64_t rest = all - full * processors * blocks;
  const double hidden = persistent ? 0.5 * beside_tiles * static_cast<double>(full) : 0;
  return launch + (shared_rows ? adding_up : 0) + static_cast<double>(full) * wave(blocks) +
         (rest > 0 ? wave(up(rest, processors)) : 0) - hidden;
}

std::string HopperAttentionTile::config() const {
  std::string text = fmt::format("m{} n{} s{}", rows(), keys, stages);
  if (blocks > 1) text += fmt::format(" b{}", blocks);
  if (shared_rows) text += fmt::format(" k{}", groups);
  return persistent ? text + " p" : text;
}

namespace {

/// A way to share rows and keys among groups and blocks: as many keys a tile and blocks a multiprocessor as fit, up to these.
struct Way {
  int64_t groups = 1, keys = 64, blocks = 1;
  bool shared_rows = false;
};

constexpr Way ways[] = {
    // One group, and several blocks a multiprocessor, where rows are few or lengths short; else groups that share keys.
    {.keys = 64, .blocks = 3},
    {.keys = 80, .blocks = 3},
    {.keys = 128, .blocks = 3},
    {.groups = 2, .keys = 128},
    {.groups = 2, .keys = 160},
    {.groups = 3, .keys = 96},
    {.groups = 3, .keys = 128},
    // Groups that share rows, where blocks are fewer than multiprocessors.
    {.groups = 2, .keys = 128, .shared_rows = true},
};

/// The way's tile with as many keys and blocks as the registers and the memory take; none where they take no tile.
std::optional<HopperAttentionTile> tile_of(const Way& way, const AttentionShape& s, MaskKind mask, const Gpu& gpu) {
  if (way.shared_rows ? way.groups > up(s.keys, 64) : way.groups > 1 && 64 * (way.groups - 1) >= s.queries)
    return std::nullopt;  // a group would have no rows, or no keys
  HopperAttentionTile t{.groups = way.groups, .shared_rows = way.shared_rows};
  if (t.shared_rows && t.blocks_of(s) > gpu.info.multiprocessors) return std::nullopt;
  const auto fits = [&] {
    const int64_t warps = t.blocks * t.threads() / 32, held = t.registers_held(s, mask);
    // The compiler fits each instruction, with its sums, into what a thread has at launch.
    const int64_t launched = registers_of_thread(warps), sums = std::max(t.keys / 2, up(s.value_depth, 16) * 8);
    return held <= (t.in_turn() ? t.registers() : launched) && sums + 32 <= launched &&
           t.blocks * (t.shared_bytes(s) + 1024) <= gpu.info.shared_per_multiprocessor;
  };
  for (int64_t limit = way.keys; limit >= 16; limit -= 16) {  // until the registers and the memory are there
    int64_t tiles = up(s.keys, limit);
    if (way.shared_rows) tiles = up(tiles, way.groups) * way.groups;
    t.keys = up(up(s.keys, tiles), 16) * 16;  // tiles of one size
    if (fits()) break;
  }
  if (!fits() || t.blocks_of(s) >= int64_t{1} << 31) return std::nullopt;
  for (t.blocks = way.blocks; t.blocks > 1 && !fits();) --t.blocks;
  // A block goes over the rows of several where no mask makes some of them longer; deeper rows leave no memory for the next ones.
  t.persistent = way.groups == 1 && mask == MaskKind::none && std::max(s.depth, s.value_depth) <= 64 &&
                 t.blocks_of(s) > t.blocks * gpu.info.multiprocessors;
  if (!fits()) t.persistent = false;
  return t;
}

}  // namespace

std::vector<HopperAttentionTile> hopper_attention_tiles(const AttentionShape& s, MaskKind mask, const Gpu& gpu) {
  std::vector<HopperAttentionTile> list;
  for (const Way& way : ways)
    if (const auto t = tile_of(way, s, mask, gpu); t && std::ranges::find(list, *t) == list.end()) list.push_back(*t);
  return list;
}

}  // namespace smelt::ops
