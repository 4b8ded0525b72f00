#include "ops/cpu/wide/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"
#include "ops/cpu/transpose_block.h"

namespace smelt::ops::wide {
namespace {

constexpr int64_t depth = 256;           // of a block: a panel's part of it stays in the L1 cache, all of a task's in L2
constexpr int64_t rows_at_once = 96;     // whose part of a block stays in the L2 cache
constexpr int64_t most_rows = 384;       // of a task: what it takes to pack its panels is little beside them
constexpr int64_t most_bytes = 1 << 19;  // of a task's panels of a block
constexpr int64_t columns_of_few = 512;  // of y, which stay in the L1 cache while the rows of b go by
constexpr int64_t few_products = 8;      // to an element of y: writing y is the work, row after row

const char* at(const void* data, int64_t element, int64_t size) { return static_cast<const char*>(data) + element * size; }
char* at(void* data, int64_t element, int64_t size) { return static_cast<char*>(data) + element * size; }

/// Of a product with `columns` columns: a few fill no wide panel.
const Table& table_of(Type type, int64_t columns) {
  if (simd::best() == simd::Isa::base) return base::wide_table(type);
  const Table *broad = avx2::wide_table_512(type), *narrow = &avx2::wide_table(type);
  return broad && columns > narrow->full.columns ? *broad : *narrow;
}

/// Rows of `width` elements, from_row apart, to rows of `step`, filled up with zeros.
template <class T>
void copy_panel(const T* from, int64_t from_row, int64_t from_column, int64_t rows, int64_t width, T* to, int64_t step) {
  constexpr int64_t size = sizeof(T);
  if (from_column == 1 && width == step) return copy_lines(to, from, rows, width * size, width * size, from_row * size);
  for (int64_t k = 0; k < rows; ++k, to += step) {
    const T* row = from + k * from_row;
    if (from_column == 1)
      std::memcpy(to, row, static_cast<size_t>(width) * sizeof(T));
    else
      for (int64_t j = 0; j < width; ++j) to[j] = row[j * from_column];
    std::fill(to + width, to + step, T{});
  }
}

/// Rows to columns: to[k][row], `step` apart, `rows` of them at a time.
template <class T>
void copy_rows(const T* from, int64_t from_row, int64_t from_column, int64_t rows, int64_t count, T* to, int64_t step) {
  int64_t done = 0, whole = 0;  // columns, and rows of them, that go by registers
#ifdef __SSE2__
  constexpr int side = 16 / static_cast<int>(sizeof(T));
  if (from_column == 1) {
    done = count / side * side, whole = rows / side * side;
    for (int64_t k = 0; k < done; k += side)
      for (int64_t r = 0; r < whole; r += side)
        transpose_block_detail::transpose_vectors<T, side>(to + k * step + r, step, from + r * from_row + k, from_row);
  }
#endif
  for (int64_t k = 0; k < count; ++k)
    for (int64_t r = k < done ? whole : 0; r < rows; ++r) to[k * step + r] = from[r * from_row + k * from_column];
}

}  // namespace

std::optional<Type> type_of(DType type) {
  switch (type) {
    case DType::f64: return Type::f64;
    case DType::i32:
    case DType::u32: return Type::i32;
    case DType::i64:
    case DType::u64: return Type::i64;
    default: return std::nullopt;
  }
}

int64_t bytes(Type type) { return type == Type::i32 ? 4 : 8; }

Gemm::Gemm(Type type, int64_t m, int64_t n, int64_t k, int threads)
    : type_(type), table_(&table_of(type, n)), m_(m), n_(n), k_(k), size_(bytes(type)) {
  threads_ = useful_threads(threads, m * n * k / 4);
  const int64_t all = std::max<int64_t>(panels(), 1), panel_bytes = std::min(depth, std::max<int64_t>(k, 1)) * width(0) * size_;
  task_panels_ = std::clamp<int64_t>(most_bytes / panel_bytes, 1, all);
  task_rows_ = std::min(most_rows, std::max<int64_t>(m, 1));
  // Several tasks for each thread; rows are divided first, down to some tiles'.
  const auto tasks = [&] { return divide_up(m_, task_rows_) * divide_up(all, task_panels_); };
  while (threads_ > 1 && tasks() < 4 * threads_ && task_rows_ > 4 * table_->rows) task_rows_ = divide_up(task_rows_, 2);
  while (threads_ > 1 && tasks() < 4 * threads_ && task_panels_ > 1) task_panels_ = divide_up(task_panels_, 2);
  task_rows_ = divide_up(task_rows_, table_->rows) * table_->rows;
}

/// Panels of two registers; the last of one, where that is enough.
int64_t Gemm::panels() const { return divide_up(n_, static_cast<int64_t>(table_->full.columns)); }
int64_t Gemm::width(int64_t p) const { return panel(p).columns; }
const Panel& Gemm::panel(int64_t p) const {
  return n_ - p * table_->full.columns <= table_->slim.columns ? table_->slim : table_->full;
}

int64_t Gemm::panels_bytes() const { return aligned(task_panels_ * table_->full.columns * std::min(k_, depth) * size_); }
int64_t Gemm::rows_bytes() const { return aligned(std::min(task_rows_, rows_at_once) * std::min(k_, depth) * size_); }
int64_t Gemm::workspace() const { return threads_ * (panels_bytes() + rows_bytes()); }

/// Whether a few rows read b's whole panels where they lie.
bool Gemm::reads_in_place(Matrix b) const { return b.column == 1 && m_ <= 3 * table_->rows; }
/// Whether rows are packed for several panels, or because they are a power of two apart, and would share few places of a cache.
bool Gemm::packs_rows(Matrix a) const {
  constexpr int64_t page = 4096, few_panels = 4;
  return panels() > few_panels || (panels() > 1 && a.row * size_ % page == 0);
}

/// `count` of b's rows from k on.
void Gemm::pack(Matrix b, int64_t p, int64_t k, int64_t count, char* to) const {
  const int64_t columns = width(p), first = p * table_->full.columns, used = std::min(columns, n_ - first);
  const char* from = at(b.data, k * b.row + first * b.column, size_);
  if (size_ == 8)
    copy_panel(reinterpret_cast<const uint64_t*>(from), b.row, b.column, count, used, reinterpret_cast<uint64_t*>(to), columns);
  else
    copy_panel(reinterpret_cast<const uint32_t*>(from), b.row, b.column, count, used, reinterpret_cast<uint32_t*>(to), columns);
}

/// `count` columns of rows from column k on, tile by tile; the step between them is the tile's rows. So a tile reads one line
/// after the other: rows that are a power of two apart would share few places of the cache.
void Gemm::pack_rows(Matrix a, int64_t first, int64_t last, int64_t k, int64_t count, char* to) const {
  const int64_t step = table_->rows;
  for (int64_t i = first; i < last; i += step) {
    const char* from = at(a.data, i * a.row + k * a.column, size_);
    char* block = at(to, (i - first) * count, size_);
    const int64_t rows = std::min(step, last - i);
    if (size_ == 8)
      copy_rows(reinterpret_cast<const uint64_t*>(from), a.row, a.column, rows, count, reinterpret_cast<uint64_t*>(block), step);
    else
      copy_rows(reinterpret_cast<const uint32_t*>(from), a.row, a.column, rows, count, reinterpret_cast<uint32_t*>(block), step);
  }
}

/// Products of small depth: a few rows of y at a time from end to end, whose lines tiles would write in parts. False where b's rows'
/// elements are apart.
bool Gemm::run_shallow(Matrix a, Matrix b, void* c, int64_t c_row) const {
  if (k_ > few_products || b.column != 1 || n_ < table_->full.columns) return false;
  const int64_t blocks = divide_up(n_, columns_of_few), few = Table::few;
  parallel(threads_, divide_up(m_, few) * blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / blocks * few, first = i % blocks * columns_of_few;
      table_->across({.a = at(a.data, row * a.row, size_),
                      .a_row = a.row,
                      .a_column = a.column,
                      .rows = static_cast<int>(std::min(few, m_ - row)),
                      .b = at(b.data, first, size_),
                      .b_step = b.row,
                      .k = k_,
                      .columns = std::min(columns_of_few, n_ - first),
                      .y = at(c, row * c_row + first, size_),
                      .y_row = c_row,
                      .y_column = 1});
    }
  });
  return true;
}

/// A few rows or columns: nothing is packed. False where the operands lie so that their elements are apart.
bool Gemm::run_few(Matrix a, Matrix b, void* c, int64_t c_row) const {
  const bool rows = m_ <= Table::few, columns = !rows && n_ == 1;
  if (!rows && !columns) return false;
  // Of one column the operands change places: c is a row then.
  const Matrix left = rows ? a : Matrix{b.data, b.column, b.row}, right = rows ? b : Matrix{a.data, a.column, a.row};
  const int64_t count = rows ? n_ : m_, y_column = rows ? 1 : c_row;
  const bool is_across = right.column == 1 && y_column == 1, is_along = right.row == 1 && left.column == 1;
  if (!is_across && !is_along) return false;
  parallel(threads_, divide_up(count, columns_of_few), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * columns_of_few;
      const FewRows f{.a = left.data,
                      .a_row = left.row,
                      .a_column = left.column,
                      .rows = rows ? static_cast<int>(m_) : 1,
                      .b = at(right.data, first * right.column, size_),
                      .b_step = is_across ? right.row : right.column,
                      .k = k_,
                      .columns = std::min(columns_of_few, count - first),
                      .y = at(c, first * y_column, size_),
                      .y_row = c_row,
                      .y_column = y_column};
      (is_across ? table_->across : table_->along)(f);
    }
  });
  return true;
}

void Gemm::run(Matrix a, Matrix b, void* c, int64_t c_row, void* workspace) const {
  if (m_ == 0 || n_ == 0) return;
  if (k_ == 0) {
    for (int64_t i = 0; i < m_; ++i) std::memset(at(c, i * c_row, size_), 0, static_cast<size_t>(n_ * size_));
    return;
  }
  if (run_few(a, b, c, c_row) || run_shallow(a, b, c, c_row)) return;
  const int64_t blocks = divide_up(m_, task_rows_);
  parallel_dynamic(threads_, blocks * divide_up(panels(), task_panels_), [&](int64_t task, int thread) {
    const int64_t first = task % blocks * task_rows_, begin = task / blocks * task_panels_;
    run_part(a, b, c, c_row, {first, std::min(m_, first + task_rows_), begin, std::min(panels(), begin + task_panels_)},
             static_cast<char*>(workspace) + thread * (panels_bytes() + rows_bytes()));
  });
}

void Gemm::run_part(Matrix a, Matrix b, void* c, int64_t c_row, const Part& part, char* memory) const {
  const int64_t columns = table_->full.columns, step = table_->rows;
  const bool in_place = reads_in_place(b), packed_rows = packs_rows(a);
  char* rows = memory + panels_bytes();
  for (int64_t k = 0; k < k_; k += depth) {
    const int64_t count = std::min(depth, k_ - k);
    const auto packed = [&](int64_t p) { return at(static_cast<void*>(memory), (p - part.begin) * columns * count, size_); };
    // Of a panel that the columns do not fill there is less in memory than a tile reads.
    const auto is_packed = [&](int64_t p) { return !in_place || n_ - p * columns < width(p); };
    for (int64_t p = part.begin; p < part.end; ++p)
      if (is_packed(p)) pack(b, p, k, count, packed(p));
    for (int64_t first = part.first; first < part.last; first += rows_at_once) {
      const int64_t last = std::min(first + rows_at_once, part.last), some = packed_rows ? step : last - first;
      if (packed_rows) pack_rows(a, first, last, k, count, rows);
      for (int64_t p = part.begin; p < part.end; ++p)
        for (int64_t i = first; i < last; i += some)
          panel(p).tile({.a = packed_rows ? at(static_cast<const void*>(rows), (i - first) * count, size_)
                                          : at(a.data, i * a.row + k * a.column, size_),
                         .a_row = packed_rows ? 1 : a.row,
                         .a_column = packed_rows ? step : a.column,
                         .b = is_packed(p) ? packed(p) : at(b.data, k * b.row + p * columns, size_),
                         .b_row = is_packed(p) ? width(p) : b.row,
                         .k = count,
                         .c = at(c, i * c_row + p * columns, size_),
                         .c_row = c_row,
                         .rows = static_cast<int>(std::min(some, last - i)),
                         .columns = static_cast<int>(std::min(width(p), n_ - p * columns)),
                         .adds = k > 0});
    }
  }
}

}  // namespace smelt::ops::wide
