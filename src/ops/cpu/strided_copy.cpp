#include "ops/cpu/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ops/cpu/parallel.h"
#include "ops/cpu/transpose_block.h"

namespace smelt::ops {
namespace {

constexpr int64_t tile = block_side;

/// to[i * to_row + j * to_column] = from[…] for a tile.
template <class T> void copy_tile(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t to_column,
                                  int64_t from_row, int64_t from_column) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
  }
}

}  // namespace

int64_t element_bytes(DType t) { return t != DType::string && bits(t) % 8 == 0 ? bytes(t, 1) : 0; }

StridedCopy::StridedCopy(const Shape& all_extents, const Shape& all_from, const Shape& all_to, int64_t element_bytes, int threads)
    : bytes_(element_bytes) {
  // Axes that lie one within the other on both sides are one.
  Shape extents, from, to;
  for (size_t a = 0; a < all_extents.size(); ++a) {
    if (all_extents[a] == 1) continue;
    const bool joins = !extents.empty() && from.back() == all_from[a] * all_extents[a] && to.back() == all_to[a] * all_extents[a];
    if (!joins) {
      extents.push_back(all_extents[a]), from.push_back(all_from[a]), to.push_back(all_to[a]);
      continue;
    }
    extents.back() *= all_extents[a], from.back() = all_from[a], to.back() = all_to[a];
  }
  const size_t rank = extents.size();
  // The innermost axis of each side, among those longer than 1.
  const auto innermost = [&](const Shape& steps) {
    size_t best = rank;
    for (size_t a = 0; a < rank; ++a) {
      if (extents[a] > 1 && (best == rank || std::abs(steps[a]) < std::abs(steps[best]))) best = a;
    }
    return best;
  };
  const size_t row = innermost(from), column = innermost(to);
  Shape grid, from_grid, to_grid;
  for (size_t a = 0; a < rank; ++a) {
    if (a == row || a == column) continue;
    grid.push_back(extents[a]);
    from_grid.push_back(from[a]);
    to_grid.push_back(to[a]);
  }
  from_ = igemm::RowMap(grid, from_grid);
  to_ = igemm::RowMap(grid, to_grid);
  planes_ = elements(grid);
  if (column < rank) columns_ = extents[column], from_column_ = from[column], to_column_ = to[column];
  if (row < rank && row != column) rows_ = extents[row], from_row_ = from[row], to_row_ = to[row];
  threads_ = useful_threads(threads, 2 * elements(extents) * bytes_);
}

void StridedCopy::run(void* to, const void* from) const {
  switch (bytes_) {
    case 1: return copy(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from));
    case 2: return copy(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from));
    case 4: return copy(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from));
    default: return copy(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from));
  }
}

template <class T> void StridedCopy::copy(T* to, const T* from) const {
  const bool transposes = to_column_ == 1 && from_row_ == 1 && rows_ >= tile && columns_ >= tile;
  // The last band of rows has what is left over.
  const int64_t bands = std::max<int64_t>(1, rows_ / tile);
  parallel(threads_, planes_ * bands, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / bands, band = task % bands, first = band * tile;
      T* out = to + to_.offset(plane) + first * to_row_;
      const T* in = from + from_.offset(plane) + first * from_row_;
      const int64_t rows = band + 1 == bands ? rows_ - first : tile;
      if (rows_ == 1 && to_column_ == 1 && from_column_ == 1) {
        std::memcpy(out, in, static_cast<size_t>(columns_) * sizeof(T));
        continue;
      }
      for (int64_t i = 0; i < rows; i += tile) {
        for (int64_t j = 0; j < columns_; j += tile) {
          if (transposes) {
            // The last block begins where it ends with the rows or columns: some of its elements are copied twice.
            const int64_t row = std::min(i, rows - tile), column = std::min(j, columns_ - tile);
            transpose_block(out + row * to_row_ + column, to_row_, in + row + column * from_column_, from_column_);
          } else {
            copy_tile(out + i * to_row_ + j * to_column_, in + i * from_row_ + j * from_column_, std::min(tile, rows - i),
                      std::min(tile, columns_ - j), to_row_, to_column_, from_row_, from_column_);
          }
        }
      }
    }
  });
}

double copy_estimate_us(const BoundNode& b, const Machine& machine) {
  int64_t moved = 0;
  for (const BoundTensor& y : b.outputs) moved += storage_bytes(y);
  constexpr double bytes_per_us = 4e3;
  return 1 + 2.0 * static_cast<double>(moved) / bytes_per_us / machine.threads;
}

}  // namespace smelt::ops
