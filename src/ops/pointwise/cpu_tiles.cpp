#include "ops/pointwise/cpu_tiles.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/number.h"

namespace smelt::ops {

Tiles::Tiles(const Shape& extents, const std::vector<Shape>& strides, std::vector<int> input_bytes, int64_t most)
    : bytes_(std::move(input_bytes)) {
  const size_t inputs = bytes_.size();
  const Shape& out = strides[inputs];
  size_t axis = extents.size() - 1;
  const auto dense_from = [&](const Shape& s, size_t first) {
    int64_t n = 1;
    for (size_t a = extents.size(); a-- > first; n *= extents[a])
      if (extents[a] != 1 && s[a] != n) return false;
    return true;
  };
  // Beyond so many elements calls cost nothing beside them, and what lies as the output does should go on doing so.
  constexpr int64_t enough = 256;
  while (axis > 0) {
    const int64_t whole = inner_ * extents[axis];
    if (whole > most || out[axis - 1] != whole) break;
    const auto ends = [&](size_t i) { return dense_from(strides[i], axis) && strides[i][axis - 1] != whole; };
    bool any = false;
    for (size_t i = 0; i < inputs && whole >= enough; ++i) any |= ends(i);
    if (any) break;
    inner_ = whole;
    --axis;
  }
  entries_ = std::clamp<int64_t>(most / std::max<int64_t>(inner_, 1), 1, extents[axis]);
  entries_ = divide_up(extents[axis], divide_up(extents[axis], entries_));  // all about as large
  const int64_t parts = divide_up(extents[axis], entries_);
  last_entries_ = extents[axis] - (parts - 1) * entries_;

  inside_.assign(extents.begin() + static_cast<int64_t>(axis), extents.end());
  inside_[0] = entries_;
  for (size_t i = 0; i < inputs; ++i) {
    const Shape& s = strides[i];
    inside_strides_.emplace_back(s.begin() + static_cast<int64_t>(axis), s.end());
    const bool single = entries_ == 1;
    const auto is_zero = [](int64_t v) { return v == 0; };
    if (dense_from(s, axis + 1) && (single || s[axis] == inner_))
      lies_.push_back(Lies::as_the_output);
    else if (std::all_of(s.begin() + static_cast<int64_t>(axis) + (single ? 1 : 0), s.end(), is_zero))
      lies_.push_back(Lies::one_element);
    else
      lies_.push_back(Lies::apart);
  }
  loops_.assign(extents.begin(), extents.begin() + static_cast<int64_t>(axis));
  loops_.push_back(parts);
  split_ = axis;
  for (const Shape& s : strides) {
    steps_.emplace_back(s.begin(), s.begin() + static_cast<int64_t>(axis));
    steps_.back().push_back(s[axis] * entries_);
  }
  order_loops();
}

/// The loop along which most of what is gathered repeats becomes the innermost one.
void Tiles::order_loops() {
  double most = 0;
  size_t best = loops_.size() - 1;
  for (size_t l = loops_.size(); l-- > 0;) {
    double saved = 0;
    for (size_t i = 0; i < lies_.size(); ++i)
      if (lies_[i] != Lies::as_the_output && steps_[i][l] == 0)
        saved += 1 - 1 / static_cast<double>(std::max<int64_t>(loops_[l], 1));
    if (saved > most) most = saved, best = l;
  }
  const auto to_the_end = [&](Shape& s) {
    std::rotate(s.begin() + static_cast<int64_t>(best), s.begin() + static_cast<int64_t>(best) + 1, s.end());
  };
  to_the_end(loops_);
  std::for_each(steps_.begin(), steps_.end(), to_the_end);
  if (best == split_)
    split_ = loops_.size() - 1;
  else if (best < split_)
    --split_;
}

int64_t Tiles::count() const {
  int64_t n = 1;
  for (const int64_t e : loops_) n *= e;
  return n;
}

int64_t Tiles::serves(size_t input) const {
  int64_t n = 1;
  for (size_t l = loops_.size(); l > 0; --l) {
    if (steps_[input][l - 1] != 0 && loops_[l - 1] != 1) break;
    n *= loops_[l - 1];
  }
  return n;
}

void Tiles::gather(size_t input, size_t axis, int64_t entries, const char* from, char* to) const {
  const Shape& strides = inside_strides_[input];
  const int bytes = bytes_[input];
  const size_t left = inside_.size() - axis;  // axes
  if (left == 1) return expr::gather_of(bytes)(to, from, strides[axis], entries, 0, 1);
  int64_t each = bytes;  // an entry's bytes
  for (size_t a = axis + 1; a < inside_.size(); ++a) each *= inside_[a];
  if (strides[axis] == 0) {
    gather(input, axis + 1, inside_[axis + 1], from, to);
    for (int64_t made = 1; made < entries; made *= 2)
      std::memcpy(to + made * each, to, static_cast<size_t>(std::min(made, entries - made) * each));
    return;
  }
  if (left == 2) return expr::gather_of(bytes)(to, from, strides[axis + 1], inside_[axis + 1], strides[axis], entries);
  for (int64_t e = 0; e < entries; ++e)
    gather(input, axis + 1, inside_[axis + 1], from + e * strides[axis] * bytes, to + e * each);
}

Tiles::Place::Place(const Tiles& t, int64_t tile, void* memory)
    : tiles_(t), offsets_(static_cast<int64_t*>(memory)), at_(offsets_ + t.steps_.size()) {
  std::fill_n(offsets_, t.steps_.size(), 0);
  for (size_t l = t.loops_.size(); l-- > 0; tile /= t.loops_[l]) {
    at_[l] = tile % t.loops_[l];
    for (size_t k = 0; k < t.steps_.size(); ++k) offsets_[k] += at_[l] * t.steps_[k][l];
  }
}

void Tiles::Place::next() {
  for (size_t l = tiles_.loops_.size(); l-- > 0;) {
    const bool ends = ++at_[l] == tiles_.loops_[l];
    const int64_t by = ends ? 1 - tiles_.loops_[l] : 1;
    if (ends) at_[l] = 0;
    for (size_t k = 0; k < tiles_.steps_.size(); ++k) offsets_[k] += by * tiles_.steps_[k][l];
    if (!ends) return;
  }
}

}  // namespace smelt::ops
