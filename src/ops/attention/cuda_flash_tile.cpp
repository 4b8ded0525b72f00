#include "ops/attention/cuda_flash_tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace smelt::ops {
namespace {

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to; }

/// Bytes of `rows` rows as smelt_flash::Tile lays them: an odd number of vectors apart.
int64_t tile_bytes(int64_t rows, int64_t vectors) { return rows * (vectors | 1) * 16; }

// A multiprocessor's products of two numbers in a microsecond by mma.sync, and what a score's exponential costs beside them:
// figures of an H100, which only rank candidates.
constexpr double products_us = 2.2e6, exponential_products = 60;

double estimate(const FlashTile& t, const AttentionCuda& p, MaskKind mask, const Gpu& gpu) {
  const AttentionShape& s = p.shape;
  const double processors = std::max(1, gpu.info.multiprocessors);
  const int64_t shared = std::max<int64_t>(gpu.info.shared_per_multiprocessor, 1 << 16), warps = t.threads() / 32;
  const int64_t registers = t.least_blocks(s) > 1 ? 128 : std::min<int64_t>(t.registers(s), 255);
  const int64_t resident =
      std::clamp<int64_t>(std::min(shared / (t.shared_bytes(s) + 1024), 65536 / (t.threads() * registers)), 1, 16);
  const double scores = static_cast<double>(t.rows() * up(s.keys, t.keys) * t.keys) / static_cast<double>(t.splits) *
                        (mask == MaskKind::causal ? 0.55 : 1);
  const double work = scores * (static_cast<double>(up(s.depth, 16) * 16 + s.value_depth) + exponential_products);
  const double blocks = static_cast<double>(t.blocks(s));
  const double waves = std::ceil(blocks / (processors * static_cast<double>(resident)));
  const double together = std::min(static_cast<double>(resident), std::ceil(blocks / processors));  // on one multiprocessor
  const double busy = std::min(1.0, together * static_cast<double>(warps) / 8) * (t.row_tiles > 1 ? 1 : 0.8);
  const double fixed = 1.5 + (t.splits == 1 ? 0 : t.cluster ? 0.7 : 2.5) + (t.mapped ? 2 : 0);
  return gpu_estimate_us(gpu, p.bytes_moved()) + fixed + waves * together * work / (products_us * busy) * (t.mapped ? 0.7 : 1);
}

}  // namespace

int64_t FlashTile::row_tiles_of(const AttentionShape& s) const {
  return up(packed ? s.queries * (s.heads / s.kv_heads) : s.queries, rows());
}

int64_t FlashTile::blocks(const AttentionShape& s) const {
  return s.batch * (packed ? s.kv_heads : s.heads) * row_tiles_of(s) * splits;
}

int64_t FlashTile::shared_bytes(const AttentionShape& s) const {
  const int64_t padded = 2 * up(s.depth, 16);
  const int64_t stage = tile_bytes(keys, padded) + tile_bytes(keys, s.value_depth / 8);
  const int64_t exchange = key_warps > 1 ? rows() * (s.value_depth + 2 * key_warps) * 4 : 0;
  return tile_bytes(rows(), padded) + std::max(stages * stage, exchange);
}

int64_t FlashTile::registers(const AttentionShape& s) const {
  return row_tiles *
             (s.value_depth / 2 + keys / key_warps / 2 * (mask == MaskKind::program ? 2 : 1) + (held ? 4 * up(s.depth, 16) : 4)) +
         (mask == MaskKind::causal ? 58 : 54);
}

int64_t FlashTile::least_blocks(const AttentionShape& s) const {
  return threads() == 128 && registers(s) > 128 && registers(s) < 145 ? 4 : 1;
}

std::string FlashTile::config() const {
  return fmt::format("m{} n{} w{}x{} s{}{}{}{}", rows(), keys, row_warps, key_warps, stages, packed ? " packed" : "",
                     mapped ? " map" : "", splits > 1 ? fmt::format(" {} {}", cluster ? "cluster" : "split", splits) : "");
}

std::vector<FlashTile> flash_tiles(const AttentionCuda& p, MaskKind mask, bool maps, const Gpu& gpu) {
  const AttentionShape& s = p.shape;
  const int64_t group = s.heads / s.kv_heads, processors = std::max(1, gpu.info.multiprocessors);
  const bool few = group * s.queries <= 32;  // rows a key head: what counts is to read the keys fast
  std::vector<FlashTile> list;
  const auto add = [&](FlashTile t) {
    t.mask = mask;
    t.held = t.row_tiles * 4 * up(s.depth, 16) <= 32;
    if (t.held && t.registers(s) > 200) t.held = false;
    const int64_t most_registers = gpu.info.major == 9 ? 255 : 250;  // nearer to 255 a few are spilled for other architectures
    if (t.registers(s) > most_registers || t.shared_bytes(s) > gpu.info.shared_per_block) return;
    if (t.blocks(s) >= int64_t{1} << 31 || t.splits > 65535) return;
    t.estimate_us = estimate(t, p, mask, gpu);
    list.push_back(t);
    const int64_t key_tiles = up(s.keys, t.keys);
    if (maps && t.splits == 1 && !t.packed && key_tiles >= 4 && key_tiles < 2048 && s.batch * s.heads < 65536) {
      t.mapped = true;
      t.estimate_us = estimate(t, p, mask, gpu);
      list.push_back(t);
    }
  };
  struct Warps {
    int64_t row_tiles, row_warps, key_warps, keys;
  };
  if (!few) {
    constexpr Warps shapes[] = {{2, 4, 1, 64}, {2, 4, 1, 32}, {1, 4, 1, 64}, {1, 4, 1, 128},
                                {2, 2, 1, 64}, {1, 2, 2, 64}, {1, 2, 1, 64}};
    for (const auto& [row_tiles, row_warps, key_warps, keys] : shapes) {
      if (keys > 64 && keys / 2 >= s.keys) continue;  // half of the tile would do
      if (row_tiles * row_warps > 2 && 8 * row_tiles * row_warps >= s.queries) continue;
      add({.row_tiles = row_tiles, .row_warps = row_warps, .key_warps = key_warps, .keys = keys});
    }
  }
  if (few || list.empty()) {
    const bool packed = group > 1;
    for (const int64_t keys : {64, 128}) {
      FlashTile t{.row_tiles = 1,
                  .row_warps = group * s.queries > 16 && packed ? 2 : 1,
                  .key_warps = 4,
                  .keys = keys,
                  .stages = 3,
                  .packed = packed};
      if (t.shared_bytes(s) > gpu.info.shared_per_block) t.stages = 2;
      const int64_t base = t.blocks(s), key_tiles = up(s.keys, keys);
      add(t);
      // One to four blocks a multiprocessor, each with a tile at least.
      int64_t last = 1;
      for (const int64_t wanted : {1, 2, 4}) {
        t.splits = std::clamp<int64_t>(up(wanted * processors, std::max<int64_t>(base, 1)), 1, key_tiles);
        if (t.splits == last) continue;
        last = t.splits;
        add(t);
      }
      t.cluster = true;
      for (t.splits = 2; gpu.info.major >= 9 && t.splits <= std::min<int64_t>(8, key_tiles); t.splits *= 2)
        if (base * t.splits <= 8 * processors) add(t);
    }
  }
  return list;
}

}  // namespace smelt::ops
