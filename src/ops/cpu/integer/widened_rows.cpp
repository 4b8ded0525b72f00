#include "ops/cpu/integer/widened_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {
namespace {

/// Long rows lie an odd number of cache lines apart: a tile reads the same place of all its rows, which would share a few places of the
/// L1 cache where their bytes are a multiple of some power of two.
int64_t pitch_of(int64_t elements) {
  constexpr int64_t line = 64 / 4, short_row = 16 * line;
  return elements < short_row ? elements : ((elements + line - 1) / line | 1) * line;
}

/// Bytes as unsigned ones, 128 more where they are signed, and zeros up to whole quads.
void copy_quads(uint8_t* to, const uint8_t* from, int64_t length, bool is_signed) {
  if (is_signed)
    std::transform(from, from + length, to, [](uint8_t x) { return static_cast<uint8_t>(x ^ 0x80U); });
  else
    std::copy_n(from, length, to);
  std::fill(to + length, to + round_up(length, 4), uint8_t{0});
}

}  // namespace

WidenedRows::WidenedRows(igemm::RowMap rows, int64_t length, bool is_signed, std::vector<igemm::Part> parts, bool quads)
    : rows_(rows),
      length_(length),
      pitch_(pitch_of(divide_up(length, quads ? 4 : 2))),
      is_signed_(is_signed),
      quads_(quads),
      parts_(std::move(parts)) {}

void WidenedRows::point(int64_t, int64_t, const float**) const { fail("rows of 8-bit integers are read in a copy"); }

void WidenedRows::point_to_copy(int64_t first, int64_t count, void* copy, const float** to) const {
  const auto widen = is_signed_ ? avx2::integer_rows().widen_i8 : avx2::integer_rows().widen_u8;
  int16_t* wide = static_cast<int16_t*>(copy);
  if (quads_) {
    igemm::RowMap::Walk walk(rows_, first);
    for (int64_t i = 0; i < count; ++i, walk.next())
      copy_quads(static_cast<uint8_t*>(copy) + i * 4 * pitch_, base_ + walk.offset(), length_, is_signed_);
  } else if (rows_.linear() && rows_.step() == length_ && length_ == 2 * pitch_) {
    widen(wide, base_ + first * length_, count * length_, zero_);
  } else {
    igemm::RowMap::Walk walk(rows_, first);
    for (int64_t i = 0; i < count; ++i, walk.next()) {
      int16_t* row = wide + i * 2 * pitch_;
      widen(row, base_ + walk.offset(), length_, zero_);
      if (length_ % 2 == 1) row[length_] = 0;
    }
  }
  const float* elements = static_cast<const float*>(copy);
  const size_t tile = parts_.size() * igemm::tile_rows;
  for (int64_t i = 0; i < count; ++i) {
    const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
    for (size_t p = 0; p < parts_.size(); ++p) here[p * igemm::tile_rows] = elements + i * pitch_ + parts_[p].offset;
  }
}

}  // namespace smelt::ops::integer
