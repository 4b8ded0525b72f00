// How a reduction on the processor walks its operands: merged axes, each kept or reduced.
#pragma once

#include <vector>

#include "expr/cpu.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// The axes of `shape` from the outermost to the innermost, as the first operand of that shape lies in memory that is not plain; in
/// their own order where all such operands are plain.
std::vector<size_t> axes_in_memory(const BoundNode& b, size_t operands, const Shape& shape);

/// The axes of a reduction over the first operands of a node, walked in `order`, neighbours merged where every operand allows it. Kept
/// indices count over all kept axes but the innermost one of all, reduced indices likewise; results lie densely in that order.
struct FoldNest {
  FoldNest(const BoundNode& b, size_t operands, const Shape& shape, const std::vector<int64_t>& axes,
           const std::vector<size_t>& order);

  /// The operands at a kept and a reduced index, `from` elements into the innermost axis.
  void locate(const Buffers& b, int64_t kept_at, int64_t reduced_at, int64_t from, expr::Operand* operands) const;
  int64_t inner() const { return extents.back(); }
  /// The extent of the axis around the innermost one, where that axis is reduced or kept as asked; else 1.
  int64_t around(bool is_reduced) const;
  /// Operand k from one index of that axis to the next.
  int64_t step_around(size_t k) const { return extents.size() > 1 ? strides[k][extents.size() - 2] : 0; }
  /// Whether that axis and the innermost one are one run of elements to every operand.
  bool is_flat() const;
  /// Whether short rows are reduced along the axis around theirs, too, in one run of elements to every operand. Lines of all rows are folded
  /// first then: a fold of each row for itself costs more than its elements.
  bool is_lines_of_rows() const;

  Shape extents;
  std::vector<bool> reduced;
  std::vector<Shape> strides;  // of each operand
  std::vector<int> bytes;      // of its elements
  bool inner_reduced = true;
  int64_t kept = 1, count = 1;  // results; elements that make one
  int64_t outer_kept = 1, outer_reduced = 1;

 private:
  void merge(const BoundNode& b, const Shape& shape, const std::vector<int64_t>& axes, const std::vector<size_t>& order);
  void gather_short_rows();
};

}  // namespace smelt::ops
