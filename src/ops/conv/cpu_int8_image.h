// An image of bytes copied for a kernel that wants it dense, channels last, unsigned, or with its padding in place.
#pragma once

#include <cstdint>

#include "ops/conv/problem.h"

namespace smelt::ops::conv {

class ByteImage {
 public:
  /// `flips`: signed bytes become unsigned ones, 128 more.
  ByteImage(const BoundTensor& x, const Shape& pad_begin, const Shape& pad_end, bool flips, int threads);

  /// [N, C, H, W] of the copy, which lies channels last.
  Shape shape() const { return {batch_, channels_, height_, width_}; }
  int64_t bytes() const { return batch_ * height_ * width_ * channels_; }
  /// `fill`: what padding becomes, as a byte of the copy.
  void run(uint8_t* to, const uint8_t* from, uint8_t fill) const;

 private:
  int64_t batch_, channels_, height_, width_;
  int64_t from_height_, from_width_, pad_y_, pad_x_;
  Shape steps_;  // of the image
  uint8_t flip_;
  int threads_;
};

}  // namespace smelt::ops::conv
