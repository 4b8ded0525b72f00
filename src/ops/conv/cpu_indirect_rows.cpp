#include "ops/conv/cpu_indirect_rows.h"

namespace smelt::ops::conv {
WindowRows::WindowRows(const Problem& p, const std::vector<Shape>& pixel_strides, std::vector<igemm::Part> parts)
    : parts_(std::move(parts)),
      zeros_(static_cast<size_t>(p.group > 1 ? p.channels() : igemm::longest_part)),
      out_height_(p.y[2]),
      out_width_(p.y[3]),
      stride_y_(p.stride[0]),
      stride_x_(p.stride[1]),
      pad_y_(p.pad_begin[0]),
      pad_x_(p.pad_begin[1]) {
  if (p.transposed) {  // each input pixel once: the products with the taps go to different places of the output
    out_height_ = p.x[0].shape[2];
    out_width_ = p.x[0].shape[3];
    stride_y_ = stride_x_ = 1;
    taps_.push_back({0, 0});
  } else {
    for (int64_t y = 0; y < p.w[2]; ++y) {
      for (int64_t x = 0; x < p.w[3]; ++x) taps_.push_back({y * p.dilation[0], x * p.dilation[1]});
    }
  }
  for (size_t i = 0; i < p.x.size(); ++i) {
    const Shape& s = pixel_strides[i];
    inputs_.push_back({nullptr, p.x[i].shape[2], p.x[i].shape[3], p.x[i].upsample, s[0], s[1], s[2]});
    upsamples_ = upsamples_ || p.x[i].upsample != 1;
  }
  last_y_ = inputs_[0].height * inputs_[0].upsample - 1 - taps_.back().y;
  last_x_ = inputs_[0].width * inputs_[0].upsample - 1 - taps_.back().x;
  const Source& image = inputs_[0];
  pixels_ = inputs_.size() == 1 && taps_.size() == 1 && !upsamples_ && stride_y_ == 1 && stride_x_ == 1 && pad_y_ == 0 &&
            pad_x_ == 0 && out_height_ == image.height && out_width_ == image.width && image.y == image.width * image.x &&
            (p.y[0] == 1 || image.n == image.height * image.y);
  for (const igemm::Part& part : parts_) {
    const Offset tap = taps_[static_cast<size_t>(part.source) / inputs_.size()];
    const Source& in = inputs_[static_cast<size_t>(part.source) % inputs_.size()];
    part_offsets_.push_back(tap.y * in.y + tap.x * in.x + part.offset);
  }
}

void WindowRows::point_inside(const float** to, int64_t n, int64_t y, int64_t x) const {
  const size_t inputs = inputs_.size();
  if (inputs == 1) {
    const float* first = inputs_[0].base + n * inputs_[0].n + y * inputs_[0].y + x * inputs_[0].x;
    for (size_t p = 0; p < parts_.size(); ++p) to[p * igemm::tile_rows] = first + part_offsets_[p];
    return;
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    const Source& in = inputs_[static_cast<size_t>(parts_[p].source) % inputs];
    to[p * igemm::tile_rows] = in.base + n * in.n + y * in.y + x * in.x + part_offsets_[p];
  }
}

void WindowRows::point_at_border(const float** to, int64_t n, int64_t y, int64_t x) const {
  const size_t inputs = inputs_.size();
  for (size_t p = 0; p < parts_.size(); ++p) {
    const igemm::Part& part = parts_[p];
    const Offset tap = taps_[static_cast<size_t>(part.source) / inputs];
    const Source& in = inputs_[static_cast<size_t>(part.source) % inputs];
    const int64_t at_y = y + tap.y, at_x = x + tap.x;
    if (at_y < 0 || at_x < 0 || at_y >= in.height * in.upsample || at_x >= in.width * in.upsample) {
      to[p * igemm::tile_rows] = zeros_.data();
    } else {
      to[p * igemm::tile_rows] = in.base + n * in.n + at_y / in.upsample * in.y + at_x / in.upsample * in.x + part.offset;
    }
  }
}

void WindowRows::point(int64_t first, int64_t count, const float** to) const {
  int64_t x = first % out_width_, y = first / out_width_ % out_height_, n = first / out_width_ / out_height_;
  const size_t tile = parts_.size() * igemm::tile_rows;
  if (pixels_ && parts_.size() == 1) {
    // A 1 × 1 window over one image: rows are pixels, one after the other.
    const float* base = inputs_[0].base + first * inputs_[0].x + parts_[0].offset;
    for (int64_t i = 0; i < count; ++i) to[i] = base + i * inputs_[0].x;
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at_y = y * stride_y_ - pad_y_, at_x = x * stride_x_ - pad_x_;
    const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
    const bool inside = !upsamples_ && at_y >= 0 && at_x >= 0 && at_y <= last_y_ && at_x <= last_x_;
    if (inside)
      point_inside(here, n, at_y, at_x);
    else
      point_at_border(here, n, at_y, at_x);
    if (++x < out_width_) continue;
    x = 0;
    if (++y < out_height_) continue;
    y = 0;
    ++n;
  }
}

PaddedRows::PaddedRows(const Problem& p, std::vector<igemm::Part> parts)
    : height(p.x[0].shape[2] + p.pad_begin[0] + p.pad_end[0]),
      width(p.x[0].shape[3] + p.pad_begin[1] + p.pad_end[1]),
      parts_(std::move(parts)),
      batch_(p.y[0]),
      channels_(p.channels()),
      out_height_(p.y[2]),
      out_width_(p.y[3]),
      stride_y_(p.stride[0]),
      stride_x_(p.stride[1]),
      dilation_y_(p.dilation[0]) {}

int64_t PaddedRows::floats() const { return batch_ * height * width * channels_; }

void PaddedRows::point(int64_t first, int64_t count, const float** to) const {
  int64_t x = first % out_width_, y = first / out_width_ % out_height_, n = first / out_width_ / out_height_;
  const size_t tile = parts_.size() * igemm::tile_rows;
  const int64_t row = width * channels_, tap = dilation_y_ * row;
  for (int64_t i = 0; i < count; ++i) {
    const float* corner = base_ + (n * height + y * stride_y_) * row + x * stride_x_ * channels_;
    const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
    for (size_t p = 0; p < parts_.size(); ++p) here[p * igemm::tile_rows] = corner + parts_[p].source * tap + parts_[p].offset;
    if (++x < out_width_) continue;
    x = 0;
    if (++y < out_height_) continue;
    y = 0;
    ++n;
  }
}

}  // namespace smelt::ops::conv
