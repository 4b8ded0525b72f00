// Measurements as tagged values: a Table holds numbers with units, and printers only format them.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/shape.h"

namespace smelt::report {

enum class Unit : uint8_t { text, count, us, ms, seconds, bytes, flops, percent, ratio, bytes_per_s, flops_per_s, error, value };

/// "a, b, c, … (12)": at most `most` of them.
std::string joined(const std::vector<std::string>& v, size_t most = 6);

/// A text, a number, yes or no, or a list. Readers see `text`, except for numbers; JSON gets the value itself.
struct Cell {
  enum class Kind : uint8_t { text, number, flag, list };
  std::string text;
  std::string full;   // the whole of a list that `text` shortens; else ""
  double number = 0;  // of a flag 0 or 1
  Kind kind = Kind::text;
  bool whole = false;        // a number of an integer type
  int indent = 0;            // spaces that readers see before a text
  std::optional<Unit> unit;  // its own unit, in a column of several units
  std::vector<Cell> list;
  Cell(std::string t) : text(std::move(t)) {}
  Cell(std::string_view t) : text(t) {}
  Cell(const char* t) : text(t) {}
  Cell(double n) : number(n), kind(Kind::number) {}
  Cell(int64_t n) : number(static_cast<double>(n)), kind(Kind::number), whole(true) {}
  Cell(int n) : Cell(int64_t{n}) {}
  Cell(double n, Unit u) : number(n), kind(Kind::number), unit(u) {}
  template <std::same_as<bool> B> Cell(B yes) : text(yes ? "yes" : "no"), number(yes), kind(Kind::flag) {}
  /// Shown cut after six, as joined() does.
  Cell(const std::vector<std::string>& names);

  bool has_number() const { return kind == Kind::number; }
};

/// A cell that stays empty where there is nothing to say: for a number that is not above zero, or not known.
template <class N> Cell positive(N n) { return n > 0 ? Cell(n) : Cell(""); }
template <class N> Cell known(const std::optional<N>& n) { return n ? Cell(*n) : Cell(""); }
/// A module's path, shown further to the right the deeper it lies; that of the whole is "(model)".
Cell module_cell(const std::string& path, int depth);

/// "[1, 8]"; in JSON an array of numbers, of names where an extent is symbolic, null where it is unknown.
Cell shape_cell(const Shape& s);
Cell shape_cell(const SymShape& s);

struct Column {
  std::string key;    // in JSON: "self_us"
  std::string title;  // in tables: "self"
  Unit unit = Unit::text;
  bool only_json = false;
};

struct Table {
  std::string key, title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;  // a line below; may be empty

  /// Stable sort by a column's key or title, numbers largest first, text in order. Throws Error (usage) naming the columns.
  void sort_by(std::string_view column);
  void keep_top(size_t n);
};

/// "12.3 ms", "1.2 GiB", "34.5%", "812 GFLOP/s": three significant digits and the unit that suits the size.
std::string format(double value, Unit unit);
std::string format(const Cell& cell, Unit column);

/// For a terminal: aligned columns. It leaves out empty columns, and keeps lines within `width` (0: no limit) by shortening text
/// columns: sentences at their end, names and paths at their front.
std::string print(const Table& table, int width = 0);

}  // namespace smelt::report
