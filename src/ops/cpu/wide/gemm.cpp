#include "ops/cpu/wide/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::wide {
namespace {

constexpr int64_t depth = 256;           // of a block: a panel's part of it stays in the L1 cache, the rows' parts in L2
constexpr int64_t most_rows = 96;        // of a task, whose part of `depth` columns stays in the L2 cache
constexpr int64_t least_work = 1 << 16;  // of a task, in products
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
Panel panel_of(const Table& t, int64_t columns) { return columns <= t.slim.columns ? t.slim : t.full; }

/// Rows of `width` elements, from_row apart, to rows of `step`, filled up with zeros.
template <class T>
void copy_panel(const T* from, int64_t from_row, int64_t from_column, int64_t rows, int64_t width, T* to, int64_t step) {
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
  for (int64_t k = 0; k < count; ++k, to += step)
    for (int64_t r = 0; r < rows; ++r) to[r] = from[r * from_row + k * from_column];
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
    : type_(type), table_(&table_of(type, n)), panel_(panel_of(*table_, n)), m_(m), n_(n), k_(k), size_(bytes(type)) {
  threads_ = useful_threads(threads, m * n * k / 4);
  const int64_t most = std::max(most_rows, least_work / std::max<int64_t>(n * std::min(k, depth), 1));
  const int64_t wanted = std::clamp<int64_t>(divide_up(m, 4 * threads_), std::min<int64_t>(4 * table_->rows, most), most);
  task_rows_ = divide_up(wanted, table_->rows) * table_->rows;
}

int64_t Gemm::panels_bytes() const { return aligned(divide_up(n_, panel_.columns) * panel_.columns * k_ * size_); }
int64_t Gemm::rows_bytes() const { return packs_rows() ? aligned(task_rows_ * std::min(k_, depth) * size_) : 0; }
int64_t Gemm::workspace() const { return panels_bytes() + threads_ * rows_bytes(); }

void Gemm::pack(Matrix b, int64_t panel, char* to) const {
  const int64_t columns = panel_.columns, width = std::min(columns, n_ - panel * columns);
  const char* from = at(b.data, panel * columns * b.column, size_);
  if (size_ == 8)
    copy_panel(reinterpret_cast<const uint64_t*>(from), b.row, b.column, k_, width, reinterpret_cast<uint64_t*>(to), columns);
  else
    copy_panel(reinterpret_cast<const uint32_t*>(from), b.row, b.column, k_, width, reinterpret_cast<uint32_t*>(to), columns);
}

/// `count` columns of a part's rows from column k on, tile by tile; the step between them is the tile's rows. So a tile reads one
/// line after the other: rows that are a power of two apart would share few places of the cache.
void Gemm::pack_rows(Matrix a, const Part& p, int64_t k, int64_t count, char* to) const {
  const int64_t step = table_->rows;
  for (int64_t i = p.first; i < p.last; i += step) {
    const char* from = at(a.data, i * a.row + k * a.column, size_);
    char* block = at(to, (i - p.first) * count, size_);
    const int64_t rows = std::min(step, p.last - i);
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
  const int64_t panels = divide_up(n_, panel_.columns), panel_bytes = panel_.columns * k_ * size_;
  char* packed = static_cast<char*>(workspace);
  parallel(threads_, panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) pack(b, p, packed + p * panel_bytes);
  });
  const int64_t blocks = divide_up(m_, task_rows_);
  // Where there are few blocks of rows, tasks take a part of the columns each.
  const int64_t parts = std::clamp<int64_t>(divide_up(4 * threads_, blocks), 1, panels), share = divide_up(panels, parts);
  parallel_dynamic(threads_, blocks * divide_up(panels, share), [&](int64_t task, int thread) {
    const int64_t first = task % blocks * task_rows_, begin = task / blocks * share;
    run_part(a, packed, c, c_row, {first, std::min(m_, first + task_rows_), begin, std::min(panels, begin + share)},
             packed + panels_bytes() + thread * rows_bytes());
  });
}

void Gemm::run_part(Matrix a, const char* packed, void* c, int64_t c_row, const Part& part, char* rows) const {
  const int64_t columns = panel_.columns, step = packs_rows() ? table_->rows : part.last - part.first;
  for (int64_t k = 0; k < k_; k += depth) {
    const int64_t count = std::min(depth, k_ - k);
    if (packs_rows()) pack_rows(a, part, k, count, rows);
    for (int64_t p = part.begin; p < part.end; ++p)
      for (int64_t i = part.first; i < part.last; i += step)
        panel_.tile({.a = packs_rows() ? at(static_cast<const void*>(rows), (i - part.first) * count, size_)
                                       : at(a.data, i * a.row + k * a.column, size_),
                     .a_row = packs_rows() ? 1 : a.row,
                     .a_column = packs_rows() ? step : a.column,
                     .b = packed + (p * k_ + k) * columns * size_,
                     .k = count,
                     .c = at(c, i * c_row + p * columns, size_),
                     .c_row = c_row,
                     .rows = static_cast<int>(std::min(step, part.last - i)),
                     .columns = static_cast<int>(std::min(columns, n_ - p * columns)),
                     .adds = k > 0});
  }
}

}  // namespace smelt::ops::wide
