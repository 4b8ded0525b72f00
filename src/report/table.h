// Measurements as tagged values: a Table holds numbers with units; printers only format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::report {

enum class Unit : uint8_t { text, count, us, ms, seconds, bytes, flops, percent, ratio, bytes_per_s, flops_per_s, error };

struct Cell {
  std::string text;
  double number = 0;
  bool has_number = false;
  Cell(std::string t) : text(std::move(t)) {}
  Cell(const char* t) : text(t) {}
  Cell(double n) : number(n), has_number(true) {}
  Cell(int64_t n) : number(static_cast<double>(n)), has_number(true) {}
  Cell(int n) : number(n), has_number(true) {}
};

struct Column {
  std::string key;        // in JSON: "self_us"
  std::string title;      // in tables: "self"
  Unit unit = Unit::text;
};

struct Table {
  std::string key, title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;       // a line below; may be empty

  /// Stable sort by a column's key or title, numbers largest first, text in order. Throws Error (usage) naming the columns.
  void sort_by(std::string_view column);
  void keep_top(size_t n);
};

/// "12.3 ms", "1.2 GiB", "34.5%", "812 GFLOP/s": three significant digits and the unit that suits the size.
std::string format(double value, Unit unit);
std::string format(const Cell& cell, Unit unit);
/// "a, b, c, … (12)": at most `most` of them.
std::string joined(const std::vector<std::string>& v, size_t most = 6);

/// For a terminal: aligned columns, those without a word left out, no line wider than `width` (0: no limit; the text columns give
/// way).
std::string print(const Table& table, int width = 0);

}  // namespace smelt::report
