#include "ops/cpu/wide/gemm.h"

#include <algorithm>
#include <cstring>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::wide {
namespace {

constexpr int64_t depth = 256;  // of a block: a panel's part of it stays in the L1 cache, the rows' parts in L2
constexpr int64_t rows_of_task = 96;
constexpr int64_t columns_of_few = 512;  // of y, which stay in the L1 cache while the rows of b go by

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
const char* at(const void* data, int64_t element, int64_t size) { return static_cast<const char*>(data) + element * size; }
char* at(void* data, int64_t element, int64_t size) { return static_cast<char*>(data) + element * size; }

/// Of a product with `columns` columns: a few fill no wide panel.
const Table& table_of(Type type, int64_t columns) {
  if (simd::best() == simd::Isa::base) return base::wide_table(type);
  const Table *broad = avx2::wide_table_512(type), *narrow = &avx2::wide_table(type);
  return broad && columns > narrow->columns ? *broad : *narrow;
}

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
}

int64_t Gemm::workspace() const { return aligned(divide_up(n_, table_->columns) * table_->columns * k_ * size_); }

void Gemm::pack(Matrix b, int64_t panel, char* to) const {
  const int64_t columns = table_->columns, width = std::min(columns, n_ - panel * columns);
  const char* from = at(b.data, panel * columns * b.column, size_);
  if (size_ == 8)
    copy_panel(reinterpret_cast<const uint64_t*>(from), b.row, b.column, k_, width, reinterpret_cast<uint64_t*>(to), columns);
  else
    copy_panel(reinterpret_cast<const uint32_t*>(from), b.row, b.column, k_, width, reinterpret_cast<uint32_t*>(to), columns);
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
  if (run_few(a, b, c, c_row)) return;
  const int64_t columns = table_->columns, panels = divide_up(n_, columns), panel_bytes = columns * k_ * size_;
  char* packed = static_cast<char*>(workspace);
  parallel(threads_, panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) pack(b, p, packed + p * panel_bytes);
  });
  const int64_t blocks = divide_up(m_, rows_of_task);
  // Where there are few blocks of rows, tasks take a part of the columns each.
  const int64_t parts = std::clamp<int64_t>(divide_up(4 * threads_, blocks), 1, panels), share = divide_up(panels, parts);
  parallel_dynamic(threads_, blocks * divide_up(panels, share), [&](int64_t task, int) {
    const int64_t first = task % blocks * rows_of_task, last = std::min(m_, first + rows_of_task);
    const int64_t begin = task / blocks * share, end = std::min(panels, begin + share);
    for (int64_t k = 0; k < k_; k += depth)
      for (int64_t p = begin; p < end; ++p)
        for (int64_t i = first; i < last; i += table_->rows)
          table_->tile({.a = at(a.data, i * a.row + k * a.column, size_),
                        .a_row = a.row,
                        .a_column = a.column,
                        .b = packed + p * panel_bytes + k * columns * size_,
                        .k = std::min(depth, k_ - k),
                        .c = at(c, i * c_row + p * columns, size_),
                        .c_row = c_row,
                        .rows = static_cast<int>(std::min<int64_t>(table_->rows, last - i)),
                        .columns = static_cast<int>(std::min(columns, n_ - p * columns)),
                        .adds = k > 0});
  });
}

}  // namespace smelt::ops::wide
