// What a tensor map in im2col mode copies, emulated: for tests of what a convolution tells it.
#pragma once

#include <vector>

#include "ops/conv/cuda_hopper_windows.h"

namespace smelt::ops::conv {

struct Place {
  int64_t column = 0, row = 0, plane = 0;  // an image has one plane
};

struct Pixel {
  int64_t image = -1;  // zeros are filled
  int64_t plane = 0, row = -1, column = -1;
  bool operator==(const Pixel&) const = default;
};

/// What a box has (PTX ISA, "im2col mode"; an H100 agreed with this on 1,200 random maps of images): windows that follow each other in
/// the box of their first pixels, along columns, then rows, planes and images; of each the pixel `tap` from where it begins, zeros
/// outside.
inline std::vector<Pixel> copied(const WindowMap& m, Place at, int64_t image, const Place& tap) {
  const bool volume = m.rank == 5;
  const auto extent = [&](size_t axis) { return static_cast<int64_t>(m.extents[axis]); };
  const auto inside = [&](int64_t v, size_t axis) { return v >= 0 && v < extent(axis); };
  /// Steps along an axis; whether its end is reached, and it begins anew.
  const auto ends = [&](int64_t& v, size_t axis) {
    if ((v += m.strides[axis]) < extent(axis) + m.last[axis - 1]) return false;
    v = m.first[axis - 1];
    return true;
  };
  std::vector<Pixel> box;
  for (uint32_t i = 0; i < m.pixels; ++i) {
    const int64_t c = at.column + tap.column, r = at.row + tap.row, p = at.plane + tap.plane;
    const bool there = inside(c, 1) && inside(r, 2) && (!volume || inside(p, 3)) && image < extent(m.rank - 1);
    box.push_back(there ? Pixel{image, p, r, c} : Pixel{});
    if (ends(at.column, 1) && ends(at.row, 2) && (!volume || ends(at.plane, 3))) ++image;
  }
  return box;
}

}  // namespace smelt::ops::conv
