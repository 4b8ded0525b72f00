#include "smelt/shape.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

int64_t elements(const Shape& s) {
  for (int64_t d : s)
    if (d < 0) fail("shape {} has a negative extent", to_string(s));
  if (std::find(s.begin(), s.end(), 0) != s.end()) return 0;
  int64_t n = 1;
  for (int64_t d : s)
    if (__builtin_mul_overflow(n, d, &n)) fail("shape {} has more elements than can be counted", to_string(s));
  return n;
}

Shape strides(const Shape& s) {
  Shape out(s.size());
  int64_t step = 1;
  for (size_t i = s.size(); i-- > 0;) {
    out[i] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(s[i], 1), &step))
      fail("shape {} has more elements than can be counted", to_string(s));
  }
  return out;
}

std::string to_string(const Shape& s) {
  std::string out = "[";
  for (size_t i = 0; i < s.size(); ++i) out += (i ? ", " : "") + std::to_string(s[i]);
  return out + "]";
}

std::string to_text(const Shape& s) {
  if (s.empty()) return "scalar";
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) out += (i ? "x" : "") + std::to_string(s[i]);
  return out;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& d = out[offset + i];
    if (d == shorter[i] || shorter[i] == 1) continue;
    if (d != 1) return std::nullopt;
    d = shorter[i];
  }
  return out;
}

int64_t normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) fail("axis {} is outside [{}, {}) of a tensor of rank {}", axis, -rank, rank, rank);
  return axis < 0 ? axis + rank : axis;
}

bool is_static(const SymShape& s) {
  return std::all_of(s.begin(), s.end(), [](const Dim& d) { return d.known(); });
}

Shape to_shape(const SymShape& s) {
  Shape out;
  out.reserve(s.size());
  for (const Dim& d : s) {
    if (!d.known()) fail("shape {} is not known in full", to_string(s));
    out.push_back(d.value);
  }
  return out;
}

SymShape to_sym(const Shape& s) { return SymShape(s.begin(), s.end()); }

std::string to_string(const SymShape& s) {
  std::string out = "[";
  for (size_t i = 0; i < s.size(); ++i) {
    if (i) out += ", ";
    out += s[i].known() ? std::to_string(s[i].value) : s[i].symbol.empty() ? "?" : s[i].symbol;
  }
  return out + "]";
}

}  // namespace smelt
