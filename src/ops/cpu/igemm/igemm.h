// Indirect matrix product, float32: C = A · B where A's rows are given by pointers, so that one loop serves matrix products,
// channels-last convolutions (a row is a pixel's channels, once for each tap) and convolutions over several inputs at once.
// After "The Indirect Convolution Algorithm" (Dukhan, 2019), blocked as in "Anatomy of High-Performance Matrix
// Multiplication" (Goto, van de Geijn, 2008): panels of 16 columns of B, packed; about 300 elements of K at a time, so that
// a panel stays in the L1 cache while the rows of A go by; tiles of 6 × 16, with AVX-512 of 12 × 32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/igemm/row_map.h"
#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::igemm {

/// True when this CPU has the instructions (AVX2 and FMA).
bool supported();

/// K in parts: within one, a row of A is contiguous.
struct Part {
  int64_t source = 0;  // which of the rows' places (tap, input) it begins at
  int64_t offset = 0;  // elements from there
  int64_t length = 0;
};

/// Splits sources of these lengths into parts of at most `longest_part` elements.
std::vector<Part> split(std::span<const int64_t> source_lengths);
inline constexpr int64_t longest_part = 320;

/// Where rows of A lie: for `count` rows from `first`, each part's pointer at to[part * tile_rows] … of the row's tile; tiles
/// are parts · tile_rows pointers apart. `first` is a multiple of tile_rows away from 0.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual void point(int64_t first, int64_t count, const float** to) const = 0;

  /// Where rows point that are zeros throughout, so that products leave them out; null: nowhere.
  virtual const float* zeros() const { return nullptr; }

  /// Rows that are made when a task wants them: bytes that `count` of them need, in memory that the task's thread has for itself.
  virtual int64_t copy_bytes(int64_t count) const { return (void)count, 0; }
  virtual void point_to_copy(int64_t first, int64_t count, void* copy, const float** to) const {
    return (void)copy, point(first, count, to);
  }
};

/// B packed: panels of 16 columns (8 when no more are left), each with its rows of K one after the other; padded with zeros, and behind
/// a panel of 8 so many elements as tiles of 16 columns read with its last row. The same for all instruction sets: those with wider
/// registers take two panels at a time.
int64_t packed_floats(int64_t k, int64_t n);
/// The columns of its panels.
int64_t packed_columns(int64_t n);
/// B's element (k, n) is at from[row_offsets[k] + n * column_stride].
void pack(float* to, const float* from, std::span<const int64_t> row_offsets, int64_t column_stride, int64_t n);

/// The work, fixed when a kernel is prepared: one product of m × k and k × n, or as many as there are groups, of floats. A group's
/// rows of A lie `group_step` elements behind those of the one before, its packed B behind that one's, and its columns of C, of
/// the bias and of the residual as well.
struct Schedule {
  int64_t m = 0, n = 0, k = 0;
  int64_t groups = 1, group_step = 0;
  bool quads = false;            // a group here is two or four of four channels each: avx2::quad_table
  std::vector<int32_t> lengths;  // of all parts
  std::vector<int32_t> blocks;   // first part of each block of K, and their number at the end
  std::vector<int64_t> block_k;  // the K at which each block begins
  int64_t block_tiles = 1, block_panels = 1, block_groups = 1;  // of a task
  int threads = 1;
  bool keeps_sums = false;  // sums go through scratch memory: several blocks of K, or `finish`
  int64_t row_bytes = 0;    // Rows::copy_bytes of a task's rows
  bool narrow = false;      // integers: B is packed as 8 bits, widened a panel at a time, or by tiles where few rows share it
};
/// `finishes`: results go to Run::finish. The parts are those of one group.
Schedule schedule(int64_t m, int64_t n, std::span<const Part> parts, bool finishes, int threads, int64_t groups = 1);

/// Bytes of workspace for all threads, without what `finish` needs.
int64_t workspace(const Schedule& s);

/// The sums of columns [column, column + columns) of `rows` rows from `row` on, `stride` apart.
struct Sums {
  int64_t row, rows, column, columns;
  const float* sums;
  int64_t stride;
  int thread;
};

/// Takes sums instead of C; called by several threads.
class Finish {
 public:
  virtual ~Finish() = default;
  virtual void take(const Sums& sums) const = 0;
};

class ByteQuads;

/// One run's memory.
struct Run {
  bool integer = false;  // 16-bit pairs and 32-bit sums instead of floats; only with `finish`
  /// Of `integer`: instead of pairs. `b` is theirs, and a row's parts lie one behind the other.
  const ByteQuads* quads = nullptr;
  const Rows* rows = nullptr;
  const float* b = nullptr;     // packed; 8-bit integers with Schedule::narrow
  const float* bias = nullptr;  // of all columns, and as many as a panel has behind the last; null: none
  float* c = nullptr;
  const RowMap* c_rows = nullptr;
  const float* residual = nullptr;  // added to the result before `end`; null: none
  const RowMap* residual_rows = nullptr;
  Ending end;
  const Finish* finish = nullptr;  // null: results go to c
  void* workspace = nullptr;       // 64-byte aligned
};
void run(const Schedule& s, const Run& r);

}  // namespace smelt::ops::igemm
