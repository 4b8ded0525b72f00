// The drawings of `smelt tune --plot`: logarithmic axes, a colour a tactic, no script and no font of its own.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/tuned.h"

namespace smelt::report {
namespace {

constexpr const char* colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};
constexpr double width = 520, height = 400, left = 100, right = 20, top = 40, bottom = 56;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

struct Range {
  double low = INFINITY, high = 0;
  void take(double v) {
    if (v <= 0 || !std::isfinite(v)) return;
    low = std::min(low, v), high = std::max(high, v);
  }
  bool empty() const { return high <= 0; }
};

/// A panel with two logarithmic axes.
class Panel {
 public:
  Panel(double x0, Range x, Range y, std::string title, std::string x_title, std::string y_title) : x0_(x0), x_(x), y_(y) {
    y_.low /= 1.3, y_.high *= 1.3;
    if (x_.low == x_.high) x_.low /= 2, x_.high *= 2;
    text(x0_ + left, top - 16, std::move(title), "start", 15);
    text(x0_ + left + (width - left - right) / 2, height - 12, std::move(x_title), "middle", 12);
    svg += fmt::format(
        "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"middle\" font-size=\"12\">{}</text>\n", x0_ + 16,
        top + (height - top - bottom) / 2, escaped(y_title));
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"#888\"/>\n",
                       x0_ + left, top, width - left - right, height - top - bottom);
  }

  double x(double v) const { return x0_ + left + (width - left - right) * share(v, x_); }
  double y(double v) const { return height - bottom - (height - top - bottom) * share(v, y_); }

  void x_mark(double v, const std::string& label) {
    svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", x(v), top,
                       height - bottom);
    text(x(v), height - bottom + 16, label, "middle", 11);
  }
  void y_marks(Unit unit) {
    const bool few = y_.high < 30 * y_.low;  // tens alone would mark it once or not at all
    for (double ten = std::pow(10, std::floor(std::log10(y_.low))); ten <= y_.high; ten *= 10) {
      for (double v : {ten, 2 * ten, 5 * ten}) {
        if (v < y_.low || v > y_.high || (v != ten && !few)) continue;
        svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", x0_ + left,
                           x0_ + width - right, y(v));
        text(x0_ + left - 6, y(v) + 4, format(v, unit), "end", 11);
      }
    }
  }
  void line(const std::vector<std::pair<double, double>>& points, const std::string& colour, bool dashed = false) {
    std::string path;
    for (const auto& [px, py] : points) path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(px), y(py));
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{} points=\"{}\"/>\n", colour,
                       dashed ? " stroke-dasharray=\"5 4\"" : "", path);
  }
  void point(double px, double py, const std::string& colour, const std::string& tip, bool filled) {
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" stroke=\"{}\" fill=\"{}\"><title>{}</title></circle>\n",
                       x(px), y(py), colour, filled ? colour : "none", escaped(tip));
  }
  void text(double px, double py, const std::string& what, const char* anchor, int size) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", px, py, anchor, size,
                       escaped(what));
  }

  std::string svg;

 private:
  static double share(double v, const Range& r) {
    return (std::log(std::clamp(v, r.low, r.high)) - std::log(r.low)) / (std::log(r.high) - std::log(r.low));
  }
  double x0_;
  Range x_, y_;
};

std::string over_rows_panel(const std::vector<TunedProduct>& products, const std::map<std::string, std::string>& colour) {
  Range m, us;
  std::map<std::string, std::vector<std::pair<double, double>>> lines;  // of each tactic, its fastest
  std::vector<std::pair<double, double>> floor;
  for (const TunedProduct& p : products) {
    m.take(static_cast<double>(p.m));
    std::set<std::string> seen;
    for (const tune::Timing& t : p.timings) {
      if (!t.runs() || !seen.insert(t.tactic).second) continue;
      us.take(t.min);
      lines[t.tactic].emplace_back(p.m, t.min);
    }
    if (p.floor_us > 0) us.take(p.floor_us), floor.emplace_back(p.m, p.floor_us);
  }
  if (m.empty() || us.empty()) return "";
  Panel panel(
      0, m, us,
      fmt::format("Time over {}: N = {}, K = {}, {}", products[0].rows, products[0].n, products[0].k, name(products[0].type)),
      products[0].rows == "M" ? "rows (M)" : products[0].rows, "time");
  for (double v = 1; v <= m.high; v *= 2)
    if (v >= m.low) panel.x_mark(v, fmt::format("{:.0f}", v));
  panel.y_marks(Unit::us);
  if (!floor.empty()) panel.line(floor, "#444", true);
  for (const auto& [tactic, points] : lines) {
    panel.line(points, colour.at(tactic));
    for (const auto& [px, py] : points)
      panel.point(px, py, colour.at(tactic),
                  fmt::format("{}, {} = {:.0f}: {}", tactic, products[0].rows, px, format(py, Unit::us)), true);
  }
  return panel.svg;
}

std::string roofline_panel(const std::vector<TunedProduct>& products, const profile::Roof& roof,
                           const std::map<std::string, std::string>& colour) {
  Range intensity, rate;
  for (const TunedProduct& p : products) {
    if (p.bytes <= 0) continue;
    intensity.take(p.flops / p.bytes);
    for (const tune::Timing& t : p.timings)
      if (t.runs()) rate.take(p.flops / t.min * 1e6);
  }
  if (intensity.empty() || rate.empty()) return "";
  const double peak = roof.peak(products[0].type);
  intensity.low /= 4, intensity.high *= 4;
  rate.low /= 2, rate.high *= 2;
  if (roof.bytes_per_s > 0 && peak > 0) {
    intensity.take(peak / roof.bytes_per_s);  // the ridge
    intensity.high = std::max(intensity.high, 2 * peak / roof.bytes_per_s);
    rate.take(peak);
  }
  Panel panel(width, intensity, rate, "Roofline, the candidates as points", "operations per byte", "rate");
  for (double v = std::pow(10, std::ceil(std::log10(intensity.low))); v <= intensity.high; v *= 10)
    panel.x_mark(v, fmt::format("{:g}", v));
  panel.y_marks(Unit::flops_per_s);
  if (roof.bytes_per_s > 0 && peak > 0) {
    std::vector<std::pair<double, double>> line;
    for (int i = 0; i <= 64; ++i) {
      const double at = intensity.low * std::pow(intensity.high / intensity.low, i / 64.0);
      line.emplace_back(at, std::min(at * roof.bytes_per_s, peak));
    }
    panel.line(line, "#444", true);
  }
  for (const TunedProduct& p : products) {
    if (p.bytes <= 0) continue;
    for (const tune::Timing& t : p.timings)
      if (t.runs())
        panel.point(p.flops / p.bytes, p.flops / t.min * 1e6, colour.at(t.tactic),
                    fmt::format("{}: {} {}, {}", p.name, t.tactic, t.config, format(t.min, Unit::us)),
                    t.tactic == p.tactic && t.config == p.config);
  }
  return panel.svg;
}

}  // namespace

std::string tuning_svg(const std::vector<TunedProduct>& over_rows, const std::vector<TunedProduct>& products,
                       const profile::Roof& roof) {
  std::map<std::string, std::string> colour;
  for (const auto* list : {&over_rows, &products})
    for (const TunedProduct& p : *list)
      for (const tune::Timing& t : p.timings) colour.try_emplace(t.tactic);
  size_t next = 0;
  for (auto& [tactic, value] : colour) value = colours[next++ % std::size(colours)];
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" fill=\"#222\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
      2 * width, height + 30);
  svg += over_rows_panel(over_rows, colour) + roofline_panel(products, roof, colour);
  double at = left;
  for (const auto& [tactic, value] : colour) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\" "
        "font-size=\"12\">{}</text>\n",
        at, height + 6, value, at + 18, height + 16, escaped(tactic));
    at += 40 + 8 * static_cast<double>(tactic.size());
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\">dashed: the floor; filled: what a plan runs</text>\n",
                     at + 10, height + 16);
  return svg + "</svg>\n";
}

}  // namespace smelt::report
