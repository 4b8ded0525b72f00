// Matrix products of elements that no library at hand multiplies on the processor: doubles, and integers of 32 and 64 bits.
// Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): panels of the right operand are packed so
// that the innermost kernel reads them in order, from cache, and so are the rows of the left one that a task takes, where there is more
// than a panel for them. A few rows or columns read the other operand where it lies.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/cpu/wide/simd/tile.h"
#include "smelt/dtype.h"

namespace smelt::ops::wide {

/// Nothing for elements of other types than f64, i32, u32, i64 and u64.
std::optional<Type> type_of(DType type);
int64_t bytes(Type type);

/// Element (i, j) lies i · row + j · column elements behind `data`.
struct Matrix {
  const void* data;
  int64_t row, column;
};

/// c[m, n] = a[m, k] · b[k, n], on up to `threads` threads. Integers wrap. The same bits whatever the threads.
class Gemm {
 public:
  Gemm(Type type, int64_t m, int64_t n, int64_t k, int threads);
  /// Bytes, aligned to 64, whatever the steps of the matrices.
  int64_t workspace() const;
  /// c is row-major, c_row elements from row to row, and overlaps no operand; k = 0 gives zeros.
  void run(Matrix a, Matrix b, void* c, int64_t c_row, void* workspace) const;

 private:
  struct Part {
    int64_t first, last;  // rows
    int64_t begin, end;   // panels
  };
  bool run_few(Matrix a, Matrix b, void* c, int64_t c_row) const;
  bool run_shallow(Matrix a, Matrix b, void* c, int64_t c_row) const;
  void pack(Matrix b, int64_t panel, char* to) const;
  void pack_rows(Matrix a, const Part& p, int64_t k, int64_t count, char* to) const;
  void run_part(Matrix a, const char* packed, void* c, int64_t c_row, const Part& p, char* rows) const;
  bool packs_rows() const { return n_ > panel_.columns; }
  int64_t panels_bytes() const;
  int64_t rows_bytes() const;

  Type type_;
  const Table* table_;
  Panel panel_;
  int64_t m_, n_, k_, size_, task_rows_;
  int threads_;
};

}  // namespace smelt::ops::wide
