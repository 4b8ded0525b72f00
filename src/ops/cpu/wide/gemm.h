// Matrix products of elements that no library at hand multiplies on the processor: doubles, and integers of 32 and 64 bits.
// Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): a task packs its panels of the right
// operand, a block of K at a time, so that the innermost kernel reads them in order, from cache, and so it does with its rows of
// the left one, where there are several panels for them. Where the rows are few, they read the panels where they lie.
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
  /// A task's rows and panels.
  struct Part {
    int64_t first, last, begin, end;
  };
  bool run_few(Matrix a, Matrix b, void* c, int64_t c_row) const;
  bool run_shallow(Matrix a, Matrix b, void* c, int64_t c_row) const;
  void run_part(Matrix a, Matrix b, void* c, int64_t c_row, const Part& p, char* memory) const;
  void pack(Matrix b, int64_t panel, int64_t k, int64_t count, char* to) const;
  void pack_rows(Matrix a, int64_t first, int64_t last, int64_t k, int64_t count, char* to) const;
  bool reads_in_place(Matrix b) const;
  bool packs_rows(Matrix a) const;
  int64_t panels() const;
  int64_t width(int64_t panel) const;
  const Panel& panel(int64_t p) const;
  int64_t panels_bytes() const;
  int64_t rows_bytes() const;

  Type type_;
  const Table* table_;
  int64_t m_, n_, k_, size_;
  int64_t task_rows_, task_panels_;  // of a task, at most
  int threads_;
};

}  // namespace smelt::ops::wide
