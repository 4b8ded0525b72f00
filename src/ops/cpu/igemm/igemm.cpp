#include "ops/cpu/igemm/igemm.h"

#include <algorithm>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/cpu/igemm/byte_quads.h"
#include "ops/cpu/igemm/integer.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::igemm {
namespace {

/// Columns of the panel that begins at column n0.
int64_t panel_width(int64_t n, int64_t n0) { return n - n0 <= 8 ? 8 : tile_columns; }

/// A thread's scratch memory.
struct Scratch {
  const float** pointers;
  float* sums;
  int16_t* panel;
  void* rows;
};

int64_t pointer_bytes(const Schedule& s) {
  return round_up(s.block_tiles * static_cast<int64_t>(s.lengths.size()) * tile_rows * static_cast<int64_t>(sizeof(float*)), 64);
}

/// From one row of a task's sums to the next. Of several groups they lie side by side: the columns that a group's last panel has
/// too many are overwritten by the next group's first ones.
int64_t sums_stride(const Schedule& s, int64_t groups, int64_t columns) {
  return round_up((groups - 1) * s.n + round_up(columns, tile_columns), tile_columns);
}

int64_t sums_bytes(const Schedule& s) {
  if (!s.keeps_sums) return 0;
  const int64_t stride = sums_stride(s, s.block_groups, s.block_panels * tile_columns);
  return s.block_tiles * tile_rows * stride * static_cast<int64_t>(sizeof(float));
}

/// Elements of block i of K.
int64_t block_length(const Schedule& s, size_t i) { return (i + 1 < s.block_k.size() ? s.block_k[i + 1] : s.k) - s.block_k[i]; }

bool widens_panels(const Schedule& s) { return s.narrow && s.m > fewest_rows_to_widen; }

/// A tile's panels of B of one block of K, widened.
int64_t panel_bytes(const Schedule& s) {
  if (!widens_panels(s)) return 0;
  int64_t longest = 0;
  for (size_t i = 0; i < s.block_k.size(); ++i) longest = std::max(longest, block_length(s, i));
  return round_up(pair_tiles().most_panels() * longest * tile_columns * static_cast<int64_t>(sizeof(float)), 64);
}

int64_t thread_bytes(const Schedule& s) { return pointer_bytes(s) + sums_bytes(s) + panel_bytes(s) + round_up(s.row_bytes, 64); }

/// Rows [row, row + rows) and columns [column, column + columns) of C, of each of the groups from `group` on.
struct Task {
  int64_t row, rows, column, columns, group, groups;
};

/// Where `count` rows from `first` on begin.
template <class T> void rows_of(const RowMap& map, int64_t first, int count, T* base, T** to) {
  if (map.linear()) {
    base += first * map.step();
    for (int n = 0; n < count; ++n) to[n] = base + n * map.step();
    return;
  }
  RowMap::Walk walk(map, first);
  for (int n = 0; n < count; ++n, walk.next()) to[n] = base + walk.offset();
}

/// Where one block of K of the panel at `column` of group `group` lies; `slot`: of the scratch memory for widened ones.
const float* panel_of(const Schedule& s, const Run& r, size_t block, int64_t group, int64_t column, int64_t slot,
                      const Scratch& scratch) {
  const int64_t width = panel_width(s.n, column), k = block_length(s, block);
  if (!s.narrow) return r.b + group * packed_floats(s.k, s.n) + column * s.k + s.block_k[block] * width;
  const int8_t* from = reinterpret_cast<const int8_t*>(r.b) + 2 * (column * s.k + s.block_k[block] * width);
  if (!widens_panels(s)) return reinterpret_cast<const float*>(from);
  int16_t* to = scratch.panel + 2 * slot * k * tile_columns;
  avx2::widen_pairs(to, from, 2 * k * width);
  return reinterpret_cast<const float*>(to);
}

/// The task's rows, which scratch.pointers lead to, times the columns of its first group. Sums are left at `sums`, `stride` apart.
void multiply(const Schedule& s, const Run& r, const Task& t, const Scratch& scratch, float* sums, int64_t stride) {
  const Tiles integer = r.quads ? byte_quad_tiles() : s.narrow && !widens_panels(s) ? byte_pair_tiles() : pair_tiles();
  const Tiles tiles = r.integer ? integer : s.quads ? quad_tiles() : float_tiles();
  const int64_t parts = static_cast<int64_t>(s.lengths.size());
  const int64_t first_column = t.group * s.n;  // of the group
  const float* zeros = r.rows->zeros();
  const size_t blocks = s.blocks.size() - 1;
  for (size_t block = 0; block < blocks; ++block) {
    const bool last = block + 1 == blocks;
    int64_t panels = 0;
    for (int64_t j = 0; j < t.columns; j += panels * tile_columns) {
      panels = std::min<int64_t>(tiles.most_panels(), divide_up(t.columns - j, tile_columns));
      const int64_t column = t.column + j, of_all = first_column + column;
      Tile tile{};
      tile.lengths = s.lengths.data() + s.blocks[block];
      tile.parts = s.blocks[block + 1] - s.blocks[block];
      tile.columns = static_cast<int32_t>(std::min(panels * tile_columns, s.n - column));
      tile.zeros = zeros ? zeros + t.group * s.group_step : nullptr;
      tile.b = panel_of(s, r, block, t.group, column, 0, scratch);
      if (panels == 2) tile.beside = panel_of(s, r, block, t.group, column + tile_columns, 1, scratch);
      tile.bias = r.bias ? r.bias + of_all : nullptr;
      tile.resume = block > 0;
      tile.sums_stride = stride;
      const bool stores = last && !r.finish;
      if (stores) tile.end = r.end;
      for_tiles(tiles, tile, panel_width(s.n, column) == tile_columns, t.rows, [&](int64_t i, int rows, TileRows& at, Tile& own) {
        if (stores) {
          rows_of(*r.c_rows, t.row + i, rows, r.c + of_all, at.c);
          if (r.residual) rows_of(*r.residual_rows, t.row + i, rows, r.residual + of_all, at.residual);
        }
        own.c = stores ? at.c : nullptr;
        own.residual = stores && r.residual ? at.residual : nullptr;
        own.sums = sums ? sums + i * stride + j : nullptr;
        own.rows = scratch.pointers + (i / tile_rows * parts + s.blocks[block]) * tile_rows;
      });
    }
  }
}

/// Moves the pointers to a task's rows by so many elements.
void shift(const Schedule& s, const Scratch& scratch, int64_t rows, int64_t elements) {
  const size_t parts = s.lengths.size();
  const float** tile = scratch.pointers;
  for (int64_t left = rows; left > 0; left -= tile_rows, tile += parts * tile_rows)
    for (size_t part = 0; part < parts; ++part)
      for (int64_t row = 0; row < std::min<int64_t>(tile_rows, left); ++row)
        tile[part * tile_rows + static_cast<size_t>(row)] += elements;
}

void compute(const Schedule& s, const Run& r, const Task& t, const Scratch& scratch, int thread) {
  r.rows->point_to_copy(t.row, t.rows, scratch.rows, scratch.pointers);
  // The sums of a few panels stay in the L1 cache until they are finished.
  const int64_t slice = r.integer ? 4 * tile_columns : t.columns;
  for (int64_t first = 0; first < t.columns; first += slice) {
    const int64_t column = t.column + first, columns = std::min(slice, t.columns - first);
    const int64_t stride = sums_stride(s, t.groups, columns);
    for (int64_t g = 0; g < t.groups; ++g) {
      if (t.group + g > 0) shift(s, scratch, t.rows, g == 0 ? t.group * s.group_step : s.group_step);
      float* sums = scratch.sums ? scratch.sums + g * s.n : nullptr;
      multiply(s, r, {t.row, t.rows, column, columns, t.group + g, 1}, scratch, sums, stride);
    }
    if (r.quads) {
      const auto row = [&](int64_t i) {
        const size_t tile = static_cast<size_t>(i / tile_rows) * s.lengths.size() * tile_rows;
        return reinterpret_cast<const uint8_t*>(scratch.pointers[tile + static_cast<size_t>(i % tile_rows)]);
      };
      r.quads->add_rests(column, columns, t.rows, reinterpret_cast<int32_t*>(scratch.sums), stride, row);
    }
    if (r.finish)
      r.finish->take({t.row, t.rows, t.group * s.n + column, (t.groups - 1) * s.n + columns, scratch.sums, stride, thread});
  }
}

}  // namespace

bool supported() { return simd::best() == simd::Isa::avx2; }

std::vector<Part> split(std::span<const int64_t> source_lengths) {
  std::vector<Part> parts;
  for (size_t s = 0; s < source_lengths.size(); ++s) {
    const int64_t pieces = std::max<int64_t>(1, divide_up(source_lengths[s], longest_part));
    const int64_t piece = divide_up(source_lengths[s], pieces);
    for (int64_t at = 0; at < source_lengths[s]; at += piece) {
      parts.push_back({static_cast<int64_t>(s), at, std::min(piece, source_lengths[s] - at)});
    }
  }
  return parts;
}

int64_t packed_columns(int64_t n) {
  const int64_t whole = n / tile_columns * tile_columns, left = n - whole;
  return whole + (left == 0 ? 0 : left <= 8 ? 8 : tile_columns);
}

int64_t packed_floats(int64_t k, int64_t n) {
  const int64_t columns = packed_columns(n);
  return k * columns + columns % tile_columns;  // what a wide tile reads with the last row of a panel of 8
}

void pack(float* to, const float* from, std::span<const int64_t> row_offsets, int64_t column_stride, int64_t n) {
  for (int64_t column = 0; column < n; column += tile_columns) {
    const int64_t width = panel_width(n, column), used = std::min<int64_t>(width, n - column);
    for (int64_t offset : row_offsets) {
      const float* row = from + offset + column * column_stride;
      for (int64_t j = 0; j < used; ++j) to[j] = row[j * column_stride];
      std::fill(to + used, to + width, 0.0f);
      to += width;
    }
  }
  std::fill_n(to, packed_floats(0, n), 0.0f);
}

Schedule schedule(int64_t m, int64_t n, std::span<const Part> parts, bool finishes, int threads, int64_t groups) {
  Schedule s;
  s.m = m;
  s.n = n;
  s.groups = groups;
  s.threads = threads;
  for (const Part& p : parts) {
    s.lengths.push_back(static_cast<int32_t>(p.length));
    s.k += p.length;
  }
  // Blocks of K of nearly equal length.
  const int64_t block_count = std::max<int64_t>(1, divide_up(s.k, longest_part + 64));
  const int64_t target = divide_up(s.k, block_count);
  int64_t k = 0, begin = 0;
  s.blocks.push_back(0);
  s.block_k.push_back(0);
  for (size_t p = 0; p < parts.size(); ++p) {
    if (k > begin && k + parts[p].length - begin > target + 32) {
      s.blocks.push_back(static_cast<int32_t>(p));
      s.block_k.push_back(k);
      begin = k;
    }
    k += parts[p].length;
  }
  s.blocks.push_back(static_cast<int32_t>(parts.size()));
  s.keeps_sums = finishes || s.blocks.size() > 2;

  // Tasks: at most 96 × 256 of C, more rows where there are few; several for each thread where there is enough work.
  const int64_t group_panels = std::max<int64_t>(1, divide_up(n, tile_columns));
  const int64_t tiles = std::max<int64_t>(1, divide_up(m, tile_rows)), panels = groups * group_panels;
  constexpr int64_t most_tiles = 16, most_panels = 16;
  int64_t row_blocks = tiles <= 40 ? 1 : divide_up(tiles, most_tiles);
  int64_t column_blocks = divide_up(panels, most_panels);
  constexpr int64_t smallest_task = 40'000;  // multiply-adds: about 1 µs
  const int64_t wanted =
      std::min<int64_t>(threads == 1 ? 1 : 4 * threads, std::max<int64_t>(1, groups * m * n * s.k / smallest_task));
  while (row_blocks * column_blocks < wanted && (row_blocks < tiles || column_blocks < panels)) {
    const bool by_columns = panels / column_blocks * 2 >= tiles / row_blocks ? column_blocks < panels : row_blocks >= tiles;
    if (by_columns)
      column_blocks = std::min(panels, column_blocks * 2);
    else
      row_blocks = std::min(tiles, row_blocks * 2);
  }
  // Wide tiles take two by two.
  const auto whole = [](int64_t n) { return has_wide_tiles() && n > 1 ? round_up(n, 2) : n; };
  s.block_tiles = whole(divide_up(tiles, row_blocks));
  s.block_panels = std::min(whole(divide_up(panels, column_blocks)), group_panels);
  s.block_groups = std::max<int64_t>(1, divide_up(panels, column_blocks) / group_panels);
  return s;
}

int64_t workspace(const Schedule& s) { return s.threads * thread_bytes(s); }

void run(const Schedule& s, const Run& r) {
  if (s.m == 0 || s.n == 0) return;
  const int64_t task_rows = s.block_tiles * tile_rows, task_columns = s.block_panels * tile_columns;
  const int64_t row_tasks = divide_up(s.m, task_rows), column_tasks = divide_up(s.n, task_columns);
  const int64_t tasks = row_tasks * column_tasks * divide_up(s.groups, s.block_groups);
  const int64_t per_thread = thread_bytes(s);
  parallel_dynamic(s.threads, tasks, [&](int64_t t, int thread) {
    char* memory = static_cast<char*>(r.workspace) + thread * per_thread;
    const Scratch scratch{reinterpret_cast<const float**>(memory),
                          s.keeps_sums ? reinterpret_cast<float*>(memory + pointer_bytes(s)) : nullptr,
                          reinterpret_cast<int16_t*>(memory + pointer_bytes(s) + sums_bytes(s)),
                          memory + pointer_bytes(s) + sums_bytes(s) + panel_bytes(s)};
    const int64_t row = t % row_tasks * task_rows, column = t / row_tasks % column_tasks * task_columns;
    const int64_t group = t / row_tasks / column_tasks * s.block_groups;
    const Task task{row,    std::min(task_rows, s.m - row),
                    column, std::min(task_columns, s.n - column),
                    group,  std::min(s.block_groups, s.groups - group)};
    compute(s, r, task, scratch, thread);
  });
}

}  // namespace smelt::ops::igemm
