// Copies between tensors of one element type, whatever it is: bytes, packed 4- and 2-bit elements, or strings.
#pragma once

#include <span>

#include "ops/core/loops.h"
#include "smelt/tensor.h"

namespace smelt::ops {

/// All of `from` into `to`, which has as many elements.
void copy_all(const Tensor& from, Tensor& to);

/// Zero, false or the empty string everywhere.
void fill_zero(Tensor& t);
/// The one element of `value` everywhere.
void fill(Tensor& t, const Tensor& value);

/// A strided window: element (i0, i1, …) of `extents` goes from offset + Σ i·strides to the same of `to`. Strides and
/// offsets count elements; strides of `from` may be 0 (repeat) or negative (reverse).
struct StridedWindow {
  int64_t offset = 0;
  Shape strides;
};
void copy_window(const Shape& extents, const Tensor& from, const StridedWindow& source, Tensor& to, const StridedWindow& target);

/// Copies runs of elements one by one, for references whose offsets follow no stride (Gather, Scatter). Made once per
/// call of the reference. Packed types are unpacked on construction and `to` is packed again by finish().
class ElementCopier {
 public:
  ElementCopier(const Tensor& from, Tensor& to);
  void copy(int64_t from, int64_t to, int64_t count = 1);
  void finish();

 private:
  Tensor from_, unpacked_to_;
  Tensor& to_;
  int64_t width_ = 0;  // bytes an element; 0: strings
  const uint8_t* source_ = nullptr;
  uint8_t* target_ = nullptr;
};

/// The slices `picked` of `from` along the axis that `v` is around, one behind the other, into `to`.
void copy_slices(const Tensor& from, const AxisView& v, std::span<const int64_t> picked, Tensor& to);

}  // namespace smelt::ops
