// Tiles of matrix products of wide elements; for *.simd.cpp sources and the driver (ops/cpu/wide/gemm.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::ops::wide {

/// Of elements. Integers wrap, so that unsigned ones are multiplied as signed ones.
enum class Type : uint8_t { f64, i32, i64 };

/// c[i][j] = or += Σ over k of a[i][k] · b[k][j] for any number of rows, Table::rows of them at a time, and up to Panel::columns columns. Steps are of elements.
struct Tile {
  const void* a;
  int64_t a_row, a_column;
  const void* b;  // Panel::columns elements for each k, whatever `columns` says
  int64_t b_row;  // from one k to the next
  int64_t k;
  void* c;
  int64_t c_row;
  int rows, columns;
  bool adds;
};

/// A few rows of a against a matrix that lies as it was stored: y[r][j] at y + r · y_row + j · y_column.
struct FewRows {
  const void* a;
  int64_t a_row, a_column;
  int rows;  // up to Table::few
  const void* b;
  int64_t b_step, k, columns;
  void* y;
  int64_t y_row, y_column;
};

/// Columns that are packed together, and the tile over them.
struct Panel {
  int columns;
  void (*tile)(const Tile&);
};

struct Table {
  static constexpr int few = 4;
  int rows;
  Panel slim, full;  // of one register a row, and of two
  /// b[k][j] at b + k · b_step + j; y_column is 1.
  void (*across)(const FewRows&);
  /// b[k][j] at b + j · b_step + k; a_column is 1.
  void (*along)(const FewRows&);
};

}  // namespace smelt::ops::wide

namespace smelt::base {
const ops::wide::Table& wide_table(ops::wide::Type type);
}
namespace smelt::avx2 {
const ops::wide::Table& wide_table(ops::wide::Type type);
/// Null where the CPU has no AVX-512.
const ops::wide::Table* wide_table_512(ops::wide::Type type);
}  // namespace smelt::avx2
