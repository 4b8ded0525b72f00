#include "ops/cpu/integer/widened_rows.h"

#include "base/error.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {
namespace {

/// Long rows lie an odd number of cache lines apart: a tile reads the same place of all its rows, which would share a few places of the
/// L1 cache where their bytes are a multiple of some power of two.
int64_t pitch_of(int64_t pairs) {
  constexpr int64_t line = 64 / 4, short_row = 16 * line;
  return pairs < short_row ? pairs : ((pairs + line - 1) / line | 1) * line;
}

}  // namespace

WidenedRows::WidenedRows(igemm::RowMap rows, int64_t length, bool is_signed, std::vector<igemm::Part> parts)
    : rows_(rows), length_(length), pitch_(pitch_of((length + 1) / 2)), is_signed_(is_signed), parts_(std::move(parts)) {}

void WidenedRows::point(int64_t, int64_t, const float**) const { fail("rows of 8-bit integers are read in a copy"); }

void WidenedRows::point_to_copy(int64_t first, int64_t count, void* copy, const float** to) const {
  const auto widen = is_signed_ ? avx2::integer_rows().widen_i8 : avx2::integer_rows().widen_u8;
  int16_t* wide = static_cast<int16_t*>(copy);
  if (rows_.linear() && rows_.step() == length_ && length_ == 2 * pitch_) {
    widen(wide, base_ + first * length_, count * length_, zero_);
  } else {
    igemm::RowMap::Walk walk(rows_, first);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      int16_t* row = wide + i * 2 * pitch_;
      widen(row, base_ + walk.offset(), length_, zero_);
      if (length_ % 2 == 1) row[length_] = 0;
    }
  }
  const float* pairs = static_cast<const float*>(copy);
  const size_t tile = parts_.size() * igemm::tile_rows;
  for (int64_t i = 0; i < count; ++i) {
    const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
    for (size_t p = 0; p < parts_.size(); ++p) here[p * igemm::tile_rows] = pairs + i * pitch_ + parts_[p].offset;
  }
}

}  // namespace smelt::ops::integer
