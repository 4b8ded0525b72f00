#include "ops/reduce/cpu_nest.h"

#include <algorithm>
#include <numeric>

#include "ops/core/strides.h"

namespace smelt::ops {
namespace {

/// Rows up to here are no rows: a fold for each costs more than reading elements that lie apart.
constexpr int64_t short_row = 7;   // less than a register
constexpr int64_t apart_row = 32;  // where a row takes a run of the program for itself

}  // namespace

std::vector<size_t> axes_in_memory(const BoundNode& b, size_t operands, const Shape& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t k = 0; k < operands; ++k) {
    const BoundTensor& t = b.inputs[k];
    if (t.layout == Layout::plain || t.shape != shape) continue;
    const Shape steps = memory_strides(t);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t a) { return steps[a]; });
    break;
  }
  return order;
}

FoldNest::FoldNest(const BoundNode& b, size_t operands, const Shape& shape, const std::vector<int64_t>& axes,
                   const std::vector<size_t>& order) {
  strides.resize(operands);
  for (size_t k = 0; k < operands; ++k) bytes.push_back(std::max(bits(b.inputs[k].type) / 8, 1));
  merge(b, shape, axes, order);
  gather_short_rows();
  inner_reduced = reduced.back();
  outer_kept = kept / (inner_reduced ? 1 : std::max<int64_t>(inner(), 1));
  outer_reduced = count / (inner_reduced ? std::max<int64_t>(inner(), 1) : 1);
}

/// Neighbouring axes become one where both are reduced or neither is, and every operand allows it.
void FoldNest::merge(const BoundNode& b, const Shape& shape, const std::vector<int64_t>& axes, const std::vector<size_t>& order) {
  std::vector<Shape> all;
  for (size_t k = 0; k < strides.size(); ++k) all.push_back(broadcast_strides(b.inputs[k], shape.size()));
  for (const size_t a : order) {
    const bool folds = std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end();
    (folds ? count : kept) *= shape[a];
    if (shape[a] == 1) continue;
    bool merges = !extents.empty() && reduced.back() == folds;
    for (size_t k = 0; k < strides.size(); ++k) merges = merges && strides[k].back() == all[k][a] * shape[a];
    if (merges)
      extents.back() *= shape[a];
    else
      extents.push_back(shape[a]), reduced.push_back(folds);
    for (size_t k = 0; k < strides.size(); ++k) {
      if (merges)
        strides[k].back() = all[k][a];
      else
        strides[k].push_back(all[k][a]);
    }
  }
  if (!extents.empty()) return;
  extents.push_back(1), reduced.push_back(true);
  for (Shape& s : strides) s.push_back(0);
}

/// The last axis that is kept goes to the end where what is reduced behind it is short: real and imaginary parts, channels of images.
void FoldNest::gather_short_rows() {
  if (is_lines_of_rows()) return;
  const auto last = std::ranges::find(reduced.rbegin(), reduced.rend(), false);
  const auto behind = static_cast<size_t>(last - reduced.rbegin());
  if (last == reduced.rend() || behind == 0) return;
  int64_t row = 1;
  for (size_t a = extents.size() - behind; a < extents.size(); ++a) row *= extents[a];
  if (row > (behind == 1 && is_flat() ? short_row : apart_row) || row > extents[extents.size() - behind - 1]) return;
  const auto move = [&](auto& list) {
    std::rotate(list.end() - 1 - static_cast<int64_t>(behind), list.end() - static_cast<int64_t>(behind), list.end());
  };
  move(extents), move(reduced);
  for (Shape& s : strides) move(s);
}

int64_t FoldNest::around(bool is_reduced) const {
  const size_t n = extents.size();
  return n > 1 && reduced[n - 2] == is_reduced ? std::max<int64_t>(extents[n - 2], 1) : 1;
}

bool FoldNest::is_flat() const {
  for (size_t k = 0; k < strides.size(); ++k)
    if (extents.size() > 1 && step_around(k) != strides[k].back() * inner()) return false;
  return true;
}

bool FoldNest::is_lines_of_rows() const {
  constexpr int64_t longest = 48, least_lines = 8;
  const size_t n = extents.size();
  if ((n != 3 && (n != 4 || reduced[0])) || !reduced[n - 3] || reduced[n - 2] || !reduced[n - 1]) return false;
  if (inner() > longest || extents[n - 3] < least_lines) return false;
  return std::ranges::all_of(
      strides, [&](const Shape& s) { return s[n - 2] == s[n - 1] * extents[n - 1] && s[n - 3] == s[n - 2] * extents[n - 2]; });
}

void FoldNest::locate(const Buffers& b, int64_t kept_at, int64_t reduced_at, int64_t from, expr::Operand* operands) const {
  for (size_t k = 0; k < strides.size(); ++k) operands[k] = {b.inputs[k], strides[k].back()};
  const auto move = [&](size_t k, int64_t elements) {
    operands[k].data = static_cast<const char*>(operands[k].data) + elements * bytes[k];
  };
  for (size_t k = 0; k < strides.size(); ++k) move(k, from * strides[k].back());
  for (size_t a = extents.size() - 1; a-- > 0;) {
    int64_t& index = reduced[a] ? reduced_at : kept_at;
    for (size_t k = 0; k < strides.size(); ++k) move(k, index % extents[a] * strides[k][a]);
    index /= extents[a];
  }
}

}  // namespace smelt::ops
