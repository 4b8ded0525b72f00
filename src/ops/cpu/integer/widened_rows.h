// Rows of 8-bit integers for igemm's integer tiles: each task copies its own, as pairs of 16-bit integers less the zero point, or as quads
// of unsigned bytes.
#pragma once

#include <vector>

#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::integer {

class WidenedRows final : public igemm::Rows {
 public:
  /// `rows`: where each row of `length` bytes, side by side, begins. `parts`: of the row's pairs, or quads. Signed bytes become unsigned
  /// quads by 128 more; a zero point is left in them.
  WidenedRows(igemm::RowMap rows, int64_t length, bool is_signed, std::vector<igemm::Part> parts, bool quads = false);
  void set(const void* base, int32_t zero) { base_ = static_cast<const uint8_t*>(base), zero_ = zero; }

  void point(int64_t first, int64_t count, const float** to) const override;
  int64_t copy_bytes(int64_t count) const override { return count * pitch_ * static_cast<int64_t>(sizeof(float)) + 64; }
  void point_to_copy(int64_t first, int64_t count, void* copy, const float** to) const override;

 private:
  igemm::RowMap rows_;
  int64_t length_, pitch_;  // pairs or quads from one row of the copy to the next
  bool is_signed_, quads_;
  std::vector<igemm::Part> parts_;
  const uint8_t* base_ = nullptr;
  int32_t zero_ = 0;
};

}  // namespace smelt::ops::integer
