// A strided window copied to another, prepared once: the kernel behind Reorder, Transpose, Slice, Expand and Split.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/core/tactic.h"
#include "ops/cpu/igemm/row_map.h"
#include "smelt/dtype.h"

namespace smelt::ops {

/// Bytes of one element; 0 where elements share bytes, or are strings.
int64_t element_bytes(DType t);

/// f(uint8_t{}), f(uint16_t{}), f(uint32_t{}) or f(uint64_t{}): elements as their bytes.
template <class F> void with_bytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

/// Element (i0, i1, …) of `extents` goes from Σ i · from to Σ i · to. Where the target's innermost axis is the source's too, or
/// repeats an element, whole lines are copied or filled; short ones by a list of their places. Blocks of short lines that repeat
/// are written once, and copied on. Else both sides are walked along the axis that is innermost in each, in
/// square tiles, so that neither is read or written a cache line at a time for one element. Elements of 1, 2, 4 or 8 bytes.
class StridedCopy {
 public:
  /// Strides count elements; those of `from` may be 0 (repeat) or negative (reverse). can_walk() is true of them.
  StridedCopy(const Shape& extents, const Shape& from, const Shape& to, int64_t element_bytes, int threads);
  void run(void* to, const void* from) const;

  /// Whether the axes are at most 9, merged where they can be.
  static bool can_walk(const Shape& extents, const Shape& from, const Shape& to);
  static bool can_move(int64_t element_bytes) {
    return element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8;
  }

 private:
  struct Place {
    int64_t to = 0, from = 0;
  };
  template <class T> void copy(T* to, const T* from) const;
  template <class T> void copy_by_places(T* to, const T* from) const;
  template <class T> void copy_places(T* to, const T* from, int64_t rows) const;
  template <class T> void copy_by_lines(T* to, const T* from) const;
  template <class T> void transpose(T* to, const T* from) const;

  int threads_;
  int64_t bytes_;
  igemm::RowMap from_, to_;  // of the planes
  int64_t planes_ = 1, rows_ = 1, columns_ = 1;
  int64_t from_row_ = 0, from_column_ = 0, to_row_ = 0, to_column_ = 0;
  bool lines_ = false;         // elements side by side in the target come from one line of the source
  std::vector<Place> places_;  // of a row's lines where they are short
  /// What is copied on within the target, the outermost axis first: to so many bytes behind its beginning.
  std::vector<std::pair<int64_t, StridedCopy>> repeats_;
};

/// Microseconds to read and write as many bytes as the node's outputs have.
double copy_estimate_us(const BoundNode& b, const Machine& machine);

}  // namespace smelt::ops
