#include "report/table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace smelt::report {
namespace {

std::string scaled(double v, const char* const* units, double step, int count) {
  int u = 0;
  while (std::abs(v) >= step && u + 1 < count) v /= step, ++u;
  const double a = std::abs(v);
  return fmt::format("{:.{}f} {}", v, a >= 99.95 || (u == 0 && v == std::floor(v)) ? 0 : a >= 9.995 ? 1 : 2, units[u]);
}

std::string time_text(double us) {
  constexpr const char* units[] = {"ns", "µs", "ms", "s"};
  return us == 0 ? "0" : scaled(us * 1e3, units, 1000, 4);
}

// Columns on a terminal, counting UTF-8 code points (µ is one).
size_t width_of(std::string_view s) {
  return static_cast<size_t>(
      std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The first `n` characters of s.
std::string_view first(std::string_view s, size_t n) {
  size_t at = 0;
  for (size_t seen = 0; at < s.size(); ++at)
    if ((static_cast<unsigned char>(s[at]) & 0xc0) != 0x80 && seen++ == n) break;
  return s.substr(0, at);
}

/// One word, such as a path of modules: two of them differ at their ends.
bool is_name(std::string_view s) {
  const size_t begin = s.find_first_not_of(' ');
  return begin != std::string_view::npos && s.find(' ', begin) == std::string_view::npos;
}

std::string cut(const std::string& s, size_t width) {
  const size_t all = width_of(s);
  if (all <= width) return s;
  if (width == 0) return "";
  // Of a name its indentation stays.
  const size_t head = is_name(s) ? std::min(s.find_first_not_of(' '), width - 1) : width - 1, tail = width - 1 - head;
  return std::string(first(s, head)) + "…" + s.substr(first(s, all - tail).size());
}

}  // namespace

std::string format(double v, Unit unit) {
  constexpr const char* byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr const char* flop_units[] = {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"};
  constexpr const char* byte_rates[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  constexpr const char* flop_rates[] = {"FLOP/s", "KFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"};
  if (unit == Unit::value) return fmt::format("{:.5g}", v);  // of a tensor, where NaN is a result and not a missing number
  if (std::isnan(v)) return "–";
  switch (unit) {
    case Unit::us: return time_text(v);
    case Unit::ms: return time_text(v * 1e3);
    case Unit::seconds: return time_text(v * 1e6);
    case Unit::bytes: return scaled(v, byte_units, 1024, 5);
    case Unit::flops: return v == 0 ? "0" : scaled(v, flop_units, 1000, 5);
    case Unit::bytes_per_s: return scaled(v, byte_rates, 1000, 5);
    case Unit::flops_per_s: return scaled(v, flop_rates, 1000, 5);
    case Unit::percent: return fmt::format("{:.1f}%", v * 100);
    case Unit::ratio: return fmt::format("{:.3f}", v);
    case Unit::error: return v == 0 ? "0" : fmt::format("{:.2e}", v);
    case Unit::count:  // a mean of runs may have half a call
      return v > 0 && v < 10 && v != std::floor(v) ? fmt::format("{:.2g}", v) : fmt::format("{:.0f}", v);
    case Unit::text:
    case Unit::value: return fmt::format("{:g}", v);
  }
  return {};
}

std::string format(const Cell& cell, Unit column) {
  if (!cell.has_number()) return std::string(static_cast<size_t>(cell.indent), ' ') + cell.text;
  const Unit unit = cell.unit.value_or(column);
  return format(cell.number, cell.whole && unit == Unit::text ? Unit::count : unit);
}

Cell::Cell(const std::vector<std::string>& names) : text(joined(names)), kind(Kind::list), list(names.begin(), names.end()) {
  if (std::string all = joined(names, names.size()); all != text) full = std::move(all);
}

Cell module_cell(const std::string& path, int depth) {
  Cell c(path.empty() ? "(model)" : path);
  c.indent = 2 * depth;
  return c;
}

Cell shape_cell(const Shape& s) {
  Cell c(to_string(s));
  c.kind = Cell::Kind::list;
  c.list.assign(s.begin(), s.end());
  return c;
}

Cell shape_cell(const SymShape& s) {
  Cell c(to_string(s));
  c.kind = Cell::Kind::list;
  for (const Dim& d : s) c.list.push_back(d.known() ? Cell(d.value) : d.symbol.empty() ? Cell(std::nan("")) : Cell(d.symbol));
  return c;
}

std::string joined(const std::vector<std::string>& v, size_t most) {
  std::string out;
  for (size_t i = 0; i < v.size() && i < most; ++i) out += (i ? ", " : "") + v[i];
  if (v.size() > most) out += fmt::format(", … ({})", v.size());
  return out;
}

void Table::sort_by(std::string_view column) {
  const auto at =
      std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.key == column || c.title == column; });
  if (at == columns.end()) {
    std::string known;
    for (const Column& c : columns) known += (known.empty() ? "" : ", ") + c.key;
    fail_usage("no column '{}' to sort by; there are {}", column, known);
  }
  const auto i = static_cast<size_t>(at - columns.begin());
  std::stable_sort(rows.begin(), rows.end(), [i](const auto& a, const auto& b) {
    return a[i].has_number() && b[i].has_number() ? a[i].number > b[i].number : a[i].text < b[i].text;
  });
}

void Table::keep_top(size_t n) {
  if (rows.size() <= n) return;
  const std::string more = fmt::format("{} more rows", rows.size() - n);
  rows.erase(rows.begin() + static_cast<long>(n), rows.end());
  note = note.empty() ? more : note + "; " + more;
}

namespace {

/// The table without its empty text columns, and those for programs only.
Table spoken(const Table& table) {
  Table t{.key = table.key,
          .title = table.title,
          .columns = {},
          .rows = std::vector<std::vector<Cell>>(table.rows.size()),
          .note = table.note};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const bool says =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& r) { return r[i].has_number() || !r[i].text.empty(); });
    if (table.columns[i].only_json || (!says && !table.rows.empty())) continue;
    t.columns.push_back(table.columns[i]);
    for (size_t r = 0; r < table.rows.size(); ++r) t.rows[r].push_back(table.rows[r][i]);
  }
  return t;
}

}  // namespace

std::string print(const Table& whole, int width) {
  const Table table = spoken(whole);
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> widths;
  for (const Column& c : table.columns) widths.push_back(width_of(c.title));
  for (const auto& row : table.rows) {
    cells.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      cells.back().push_back(format(row[i], table.columns[i].unit));
      widths[i] = std::max(widths[i], width_of(cells.back().back()));
    }
  }
  if (width > 0) {
    // Shortens the widest text column, by one character at a time, to 12 at least.
    size_t total = 0;
    for (size_t w : widths) total += w + 2;
    while (total > static_cast<size_t>(width)) {
      size_t widest = widths.size();
      for (size_t i = 0; i < widths.size(); ++i)
        if (table.columns[i].unit == Unit::text && widths[i] > 12 && (widest == widths.size() || widths[i] > widths[widest]))
          widest = i;
      if (widest == widths.size()) break;
      --widths[widest], --total;
    }
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string c = cut(row[i], widths[i]);
      const std::string pad(widths[i] - width_of(c), ' ');
      text += table.columns[i].unit == Unit::text ? c + pad : pad + c;
      if (i + 1 < row.size()) text += "  ";
    }
    text.resize(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  if (!table.title.empty()) out += table.title + "\n";
  std::vector<std::string> titles;
  for (const Column& c : table.columns) titles.push_back(c.title);
  line(titles);
  size_t total = 0;
  for (size_t w : widths) total += w + 2;
  for (size_t i = 2; i < total; ++i) out += "─";
  out += "\n";
  for (const auto& row : cells) line(row);
  if (!table.note.empty()) out += table.note + "\n";
  return out;
}

}  // namespace smelt::report
