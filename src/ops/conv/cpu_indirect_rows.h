// Where a channels-last convolution's rows of A lie: one row of B's K for each tap of the window and each input.
#pragma once

#include <vector>

#include "ops/conv/problem.h"
#include "ops/cpu/igemm/igemm.h"

namespace smelt::ops::conv {

/// Sources are numbered tap · inputs + input; taps row-major over the window. Two spatial axes. Of several groups, the rows of the
/// first: those of another lie the channels before it further on, also where they are zeros.
class WindowRows final : public igemm::Rows {
 public:
  /// `pixel_strides`: of each input, elements along [N, H, W].
  WindowRows(const Problem& p, const std::vector<Shape>& pixel_strides, std::vector<igemm::Part> parts);
  void set_input(size_t i, const float* base) { inputs_[i].base = base; }
  void point(int64_t first, int64_t count, const float** to) const override;
  const float* zeros() const override { return zeros_.data(); }

 private:
  struct Source {
    const float* base = nullptr;
    int64_t height, width, upsample;
    int64_t n, y, x;  // strides
  };
  struct Offset {
    int64_t y, x;
  };
  /// `count` windows from the one at (n, y, x) of the image on, of one line; `row`: of the first in its task.
  void point_inside(const float** to, int64_t row, int64_t count, int64_t n, int64_t y, int64_t x) const;
  void point_at_border(const float** to, int64_t n, int64_t y, int64_t x) const;

  std::vector<Source> inputs_;
  std::vector<Offset> taps_;
  std::vector<igemm::Part> parts_;
  std::vector<float> zeros_;           // what taps outside the image read
  std::vector<int64_t> part_offsets_;  // from the window's first pixel, for windows wholly inside an input that is not upsampled
  int64_t out_height_, out_width_, stride_y_, stride_x_, pad_y_, pad_x_, last_y_;
  int64_t inside_begin_, inside_end_;  // of a line's pixels, those whose windows have no column outside of the image
  bool upsamples_ = false;
  bool pixels_ = false;  // a 1 × 1 window over a dense image
};

/// Rows of a copy of the image with its padding in place, [N, H + pads, W + pads, C]: a window's row of taps is contiguous.
/// Sources are the window's rows.
class PaddedRows final : public igemm::Rows {
 public:
  PaddedRows(const Problem& p, const std::vector<igemm::Part>& parts);
  int64_t floats() const;  // of the copy
  void set_image(const float* base) { base_ = base; }
  void point(int64_t first, int64_t count, const float** to) const override;
  /// Where the window of the first pixel of an output's line begins; lines are counted over all images.
  const float* line(int64_t line) const {
    return base_ + (line / out_height_ * height + line % out_height_ * stride_y_) * width * channels_;
  }
  /// Elements from one pixel's window to the next one's.
  int64_t step() const { return stride_x_ * channels_; }

  int64_t height, width;  // of the copy

 private:
  const float* base_ = nullptr;
  std::vector<int64_t> part_offsets_;  // from the window's first pixel
  int64_t batch_, channels_, out_height_, out_width_, stride_y_, stride_x_;
};

}  // namespace smelt::ops::conv
