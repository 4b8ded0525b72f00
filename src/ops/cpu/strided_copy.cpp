#include "ops/cpu/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "expr/simd/widest.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"
#include "ops/cpu/simd/transposes.h"
#include "ops/cpu/transpose_block.h"

namespace smelt::ops {
namespace {

constexpr int64_t tile = block_side;
constexpr int64_t least_block = 64;  // bytes that repeat, to be copied on from where they were written
constexpr int64_t least_all = 1024;  // or that all repeats of a smaller block have
constexpr int64_t most_lines = 256;  // whose places are kept

/// Axes that lie one within the other on both sides are one; those of extent 1 are none.
struct MergedStrides {
  Shape extents, from, to;

  MergedStrides(const Shape& all_extents, const Shape& all_from, const Shape& all_to) {
    for (size_t a = 0; a < all_extents.size(); ++a) {
      const int64_t extent = all_extents[a];
      if (extent == 1) continue;
      if (!extents.empty() && from.back() == all_from[a] * extent && to.back() == all_to[a] * extent) {
        extents.back() *= extent, from.back() = all_from[a], to.back() = all_to[a];
      } else {
        extents.push_back(extent), from.push_back(all_from[a]), to.push_back(all_to[a]);
      }
    }
  }
  size_t rank() const { return extents.size(); }

  /// The axis of the least step but 0, other than `taken`; rank() where there is none.
  size_t innermost(const Shape& steps, size_t taken) const {
    size_t best = rank();
    for (size_t a = 0; a < rank(); ++a) {
      if (a != taken && steps[a] != 0 && (best == rank() || std::abs(steps[a]) < std::abs(steps[best]))) best = a;
    }
    return best;
  }

  /// The outermost axis along which blocks of more than one short line repeat; rank() where there is none. Blocks lie dense.
  size_t repeated(int64_t bytes) const {
    size_t best = rank();
    const size_t line = innermost(to, rank());
    if (line == rank() || elements(extents) == 0 || to[line] != 1 || (from[line] == 1 && extents[line] * bytes >= short_line))
      return best;
    for (size_t a = 0; a < rank(); ++a) {
      if (from[a] != 0 || a == line || (best < rank() && to[a] < to[best])) continue;
      if (to[a] * bytes < least_block && to[a] * extents[a] * bytes < least_all) continue;
      int64_t inside = 1;
      for (size_t i = 0; i < rank(); ++i) inside *= to[i] < to[a] ? extents[i] : 1;
      if (inside == to[a] && (from[line] != 1 || inside > extents[line])) best = a;
    }
    return best;
  }

  /// The innermost axis of the target that is not used; rank() where all are.
  size_t next(const std::vector<bool>& used) const {
    size_t best = rank();
    for (size_t a = 0; a < rank(); ++a)
      if (!used[a] && (best == rank() || to[a] < to[best])) best = a;
    return best;
  }

  void drop(size_t a) {
    for (Shape* s : {&extents, &from, &to}) s->erase(s->begin() + static_cast<Shape::difference_type>(a));
  }
};

/// to[i * to_row + j * to_column] = from[…] for a tile.
template <class T> void copy_tile(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t to_column,
                                  int64_t from_row, int64_t from_column) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
  }
}

/// One line of `bytes`, `rows` times, one behind the other: what has been written is copied on, as much again as there is of it.
void repeat_line(char* to, const char* from, int64_t rows, int64_t bytes) {
  constexpr int64_t most = 1 << 13;  // stays in the L1 cache
  std::memcpy(to, from, static_cast<size_t>(bytes));
  for (int64_t done = bytes, all = rows * bytes; done < all;) {
    const int64_t n = std::min({done, all - done, std::max(bytes, most / bytes * bytes)});
    std::memcpy(to + done, to, static_cast<size_t>(n));
    done += n;
  }
}

/// Lines one behind the other that are all one line are written once, and copied on.
void move_lines(char* to, const char* from, int64_t rows, int64_t bytes, int64_t to_row, int64_t from_row) {
  if (from_row == 0 && to_row == bytes && rows >= 8 && bytes < short_line) return repeat_line(to, from, rows, bytes);
  copy_lines(to, from, rows, bytes, to_row, from_row);
}

/// Lines whose elements lie `step` apart in the source: repeated, reversed, every other one, or any.
template <class T>
void gather_lines(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_row, int64_t step) {
  for (int64_t i = 0; i < rows; ++i, to += to_row, from += from_row) {
    if (step == 0)
      std::fill_n(to, columns, *from);
    else if (step == -1)
      for (int64_t j = 0; j < columns; ++j) to[j] = from[-j];
    else if (step == 2)
      for (int64_t j = 0; j < columns; ++j) to[j] = from[2 * j];
    else
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j * step];
  }
}

/// Of at least `tile` rows and columns. Blocks that end with the rows or columns copy some elements again.
template <class T>
void transpose_blocks(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
  if constexpr (sizeof(T) == 4) {
    static const Transpose4 blocks = simd::widest_of(base::transpose_4, avx2::transpose_4, avx512::transpose_4);
    return blocks(to, from, rows, columns, to_row, from_column);
  }
  constexpr int64_t side = 4 * tile;  // of a group of blocks, whose lines are whole and stay in the L1 cache
  for (int64_t left = 0; left < columns; left += side) {
    for (int64_t i = 0; i < rows; i += tile) {
      const int64_t row = std::min(i, rows - tile);
      for (int64_t j = left; j < std::min(left + side, columns); j += tile) {
        const int64_t column = std::min(j, columns - tile);
        transpose_block(to + row * to_row + column, to_row, from + row + column * from_column, from_column);
      }
    }
  }
}

/// Fewer rows or columns than a block has: in registers of m elements, and what is left over one by one.
template <class T, int m>
void transpose_narrow(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
#ifdef __SSE2__
  if (columns == 2 && to_row == 2 && rows >= 16 / static_cast<int64_t>(sizeof(T))) return zip(to, from, from + from_column, rows);
  if (rows >= m && columns >= m) return transpose_small<T, m>(to, from, rows, columns, to_row, from_column);
  if (columns < m && to_row == columns) {
    const int64_t done = put_together<T, m>(to, from, rows, columns, from_column);
    to += done * to_row, from += done, rows -= done;
  } else if (rows < m) {
    const int64_t done = take_apart<T, m>(to, from, rows, columns, to_row, from_column);
    to += done, from += done * from_column, columns -= done;
  }
#endif
  copy_tile(to, from, rows, columns, to_row, 1, 1, from_column);
}

/// to[i * to_row + j] = from[j * from_column + i].
template <class T> void transpose_band(T* to, const T* from, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column) {
  constexpr int all = 16 / static_cast<int>(sizeof(T));  // elements of a register
  const int64_t least = std::min(rows, columns);
  if (least >= tile) return transpose_blocks(to, from, rows, columns, to_row, from_column);
  if constexpr (all > 2) {
    if (least <= all / 2) return transpose_narrow<T, all / 2>(to, from, rows, columns, to_row, from_column);
  }
  transpose_narrow<T, all>(to, from, rows, columns, to_row, from_column);
}

/// How an axis of a transposition is cut into bands for threads and caches: the last one has what is left over.
struct Bands {
  int64_t extent, height, count;
  /// As many elements along this axis as make a band of some 2^12 to 2^14 with `across` of the other one.
  Bands(int64_t n, int64_t across, int64_t most)
      : extent(n),
        height(across < most ? std::max(most, (int64_t{1} << 12) / std::max<int64_t>(across, 1) / tile * tile) : most),
        count(std::max<int64_t>(1, n / height)) {}
  int64_t first(int64_t band) const { return band * height; }
  int64_t length(int64_t band) const { return band + 1 == count ? extent - first(band) : height; }
};

}  // namespace

int64_t element_bytes(DType t) { return t != DType::string && bits(t) % 8 == 0 ? bytes(t, 1) : 0; }

bool StridedCopy::can_walk(const Shape& extents, const Shape& from, const Shape& to) {
  return MergedStrides(extents, from, to).rank() <= 9;  // a RowMap's 8, and the lines' own
}

StridedCopy::StridedCopy(const Shape& all_extents, const Shape& all_from, const Shape& all_to, int64_t element_bytes, int threads)
    : bytes_(element_bytes) {
  MergedStrides m(all_extents, all_from, all_to);
  for (size_t a = m.repeated(bytes_); a < m.rank(); a = m.repeated(bytes_)) {
    Shape extents = m.extents, from = m.to;
    --extents[a], from[a] = 0;
    repeats_.emplace_back(m.to[a] * bytes_, StridedCopy(extents, from, m.to, bytes_, threads));
    m.drop(a);
  }
  const size_t rank = m.rank(), column = m.innermost(m.to, rank);
  size_t row = rank;
  if (column < rank) {
    columns_ = m.extents[column], from_column_ = m.from[column], to_column_ = m.to[column];
    const size_t inner = m.innermost(m.from, rank);
    // Lines, unless the source lies along another axis.
    lines_ = to_column_ == 1 && (from_column_ == 0 || from_column_ == 1 || inner == column || inner == rank);
    row = lines_ ? m.innermost(m.to, column) : inner;
  }
  std::vector<bool> used(rank, false);
  if (column < rank) used[column] = true;
  // Short lines: those of the innermost axes by a list of their places, as long as it is short.
  if (lines_ && columns_ * bytes_ < short_line) {
    places_.push_back({});
    for (; row < rank && m.extents[row] * static_cast<int64_t>(places_.size()) <= most_lines; row = m.next(used)) {
      const size_t lines = places_.size();
      for (int64_t i = 1; i < m.extents[row]; ++i)
        for (size_t l = 0; l < lines; ++l) places_.push_back({places_[l].to + i * m.to[row], places_[l].from + i * m.from[row]});
      used[row] = true;
    }
    if (places_.size() == 1 && from_column_ == 1) places_.clear();
  }
  if (row < rank && row != column) rows_ = m.extents[row], from_row_ = m.from[row], to_row_ = m.to[row], used[row] = true;
  Shape grid, from_grid, to_grid;
  for (size_t a = 0; a < rank; ++a) {
    if (used[a]) continue;
    grid.push_back(m.extents[a]);
    from_grid.push_back(m.from[a]);
    to_grid.push_back(m.to[a]);
  }
  from_ = igemm::RowMap(grid, from_grid);
  to_ = igemm::RowMap(grid, to_grid);
  planes_ = elements(m.extents) == 0 ? 0 : elements(grid);
  threads_ = useful_threads(threads, 2 * elements(m.extents) * bytes_);
}

void StridedCopy::run(void* to, const void* from) const {
  if (planes_ * rows_ * columns_ == 0) return;
  with_bytes(bytes_, [&]<class T>(T) { copy(static_cast<T*>(to), static_cast<const T*>(from)); });
  // What repeats is copied on, the inner axes first.
  for (size_t i = repeats_.size(); i-- > 0;) repeats_[i].second.run(static_cast<char*>(to) + repeats_[i].first, to);
}

template <class T> void StridedCopy::copy(T* to, const T* from) const {
  if (!places_.empty()) return copy_by_places(to, from);
  if (lines_) return copy_by_lines(to, from);
  if (to_column_ == 1 && from_row_ == 1) return transpose(to, from);
  const int64_t bands = std::max<int64_t>(1, rows_ / tile);
  parallel(threads_, planes_ * bands, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / bands, band = task % bands, first = band * tile;
      T* out = to + to_.offset(plane) + first * to_row_;
      const T* in = from + from_.offset(plane) + first * from_row_;
      const int64_t rows = band + 1 == bands ? rows_ - first : tile;
      for (int64_t i = 0; i < rows; i += tile) {
        for (int64_t j = 0; j < columns_; j += tile)
          copy_tile(out + i * to_row_ + j * to_column_, in + i * from_row_ + j * from_column_, std::min(tile, rows - i),
                    std::min(tile, columns_ - j), to_row_, to_column_, from_row_, from_column_);
      }
    }
  });
}

template <class T> void StridedCopy::transpose(T* to, const T* from) const {
  const Bands rows(rows_, columns_, 4 * tile), columns(columns_, rows_, 16 * tile);
  if (rows.count * columns.count == 1) {  // small planes, of which there are many
    return parallel(threads_, planes_, 1, [&](int64_t begin, int64_t end, int) {
      igemm::RowMap::Walk out(to_, begin), in(from_, begin);
      for (int64_t plane = begin; plane < end; ++plane, out.next(), in.next())
        transpose_band(to + out.offset(), from + in.offset(), rows_, columns_, to_row_, from_column_);
    });
  }
  parallel(threads_, planes_ * rows.count * columns.count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / (rows.count * columns.count), row = task / columns.count % rows.count,
                    column = task % columns.count;
      const int64_t i = rows.first(row), j = columns.first(column);
      transpose_band(to + to_.offset(plane) + i * to_row_ + j, from + from_.offset(plane) + i + j * from_column_,
                     rows.length(row), columns.length(column), to_row_, from_column_);
    }
  });
}

/// Threads share the rows, each of which is a list of short lines.
template <class T> void StridedCopy::copy_by_places(T* to, const T* from) const {
  const int64_t row_bytes = static_cast<int64_t>(places_.size() * sizeof(T)) * columns_;
  parallel(threads_, planes_ * rows_, std::max<int64_t>(1, 4096 / row_bytes), [&](int64_t begin, int64_t end, int) {
    igemm::RowMap::Walk to_plane(to_, begin / rows_), from_plane(from_, begin / rows_);
    for (int64_t row = begin % rows_; begin < end; row = 0, to_plane.next(), from_plane.next()) {
      const int64_t rows = std::min(rows_ - row, end - begin);
      copy_places(to + to_plane.offset() + row * to_row_, from + from_plane.offset() + row * from_row_, rows);
      begin += rows;
    }
  });
}

template <class T> void StridedCopy::copy_places(T* to, const T* from, int64_t rows) const {
  const int64_t columns = columns_, size = sizeof(T);
  const auto each = [&](const auto& line) {
    for (int64_t i = 0; i < rows; ++i, to += to_row_, from += from_row_)
      for (const Place& p : places_) line(to + p.to, from + p.from);
  };
  if (from_column_ == 1) {
    with_width(columns * size, [&](auto width) {
      each([&](T* y, const T* x) {
        copy_by_pieces<width>(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(x), 1, columns * size, 0, 0);
      });
    });
  } else if (from_column_ == 0) {
    with_width(std::min<int64_t>(columns * size, 16), [&](auto width) {
      if constexpr (width <= 16 && width >= static_cast<int>(sizeof(T)))
        each([&](T* y, const T* x) { fill_by_pieces<width>(y, *x, columns); });
    });
  } else {
    each([&, step = from_column_](T* y, const T* x) {
      for (int64_t j = 0; j < columns; ++j) y[j] = x[j * step];
    });
  }
}

/// Threads share the elements rather than the lines, of which there may be one.
template <class T> void StridedCopy::copy_by_lines(T* to, const T* from) const {
  constexpr int64_t size = sizeof(T);
  const int64_t grain = columns_ * size <= 4096 ? columns_ : 64 / size;
  parallel(threads_, planes_ * rows_ * columns_, grain, [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin / columns_ / rows_;
    igemm::RowMap::Walk to_plane(to_, first), from_plane(from_, first);
    int64_t row = begin / columns_ % rows_, column = begin % columns_;
    while (begin < end) {
      const bool part = column > 0 || end - begin < columns_;
      const int64_t rows = part ? 1 : std::min(rows_ - row, (end - begin) / columns_);
      const int64_t columns = part ? std::min(columns_ - column, end - begin) : columns_;
      T* out = to + to_plane.offset() + row * to_row_ + column;
      const T* in = from + from_plane.offset() + row * from_row_ + column * from_column_;
      if (from_column_ == 1)
        move_lines(reinterpret_cast<char*>(out), reinterpret_cast<const char*>(in), rows, columns * size, to_row_ * size,
                   from_row_ * size);
      else
        gather_lines(out, in, rows, columns, to_row_, from_row_, from_column_);
      begin += rows * columns;
      row += rows, column = 0;
      if (row == rows_) to_plane.next(), from_plane.next(), row = 0;
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
