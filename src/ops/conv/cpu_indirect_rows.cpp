#include "ops/conv/cpu_indirect_rows.h"

#include <algorithm>

namespace smelt::ops::conv {
namespace {

/// Where the first part's pointer of row `row` of a task lies.
const float** place(const float** to, int64_t row, size_t parts) {
  const auto tile = static_cast<size_t>(row / igemm::tile_rows), in_tile = static_cast<size_t>(row % igemm::tile_rows);
  return to + tile * parts * igemm::tile_rows + in_tile;
}

/// The pointers of `count` rows from `row` of a task on, whose windows begin at `first` and `step` elements apart.
void point_run(const float** to, int64_t row, int64_t count, const std::vector<int64_t>& offsets, const float* first,
               int64_t step) {
  while (count > 0) {
    const float** here = place(to, row, offsets.size());
    const int64_t in_tile = std::min<int64_t>(count, igemm::tile_rows - row % igemm::tile_rows);
    if (in_tile == igemm::tile_rows) {
      for (const int64_t offset : offsets) {
        const float* at = first + offset;
        for (int i = 0; i < igemm::tile_rows; ++i) here[i] = at + i * step;
        here += igemm::tile_rows;
      }
    } else {
      for (const int64_t offset : offsets) {
        for (int64_t i = 0; i < in_tile; ++i) here[i] = first + offset + i * step;
        here += igemm::tile_rows;
      }
    }
    row += in_tile, count -= in_tile, first += in_tile * step;
  }
}

/// Calls line(row, n, y, x, pixels) for the lines of the output that rows [first, first + count) lie on: `pixels` of them from
/// (n, y, x) on, of which the first is row `row` of the task.
template <class F> void each_line(int64_t first, int64_t count, int64_t height, int64_t width, F&& line) {
  int64_t x = first % width, y = first / width % height, n = first / width / height;
  for (int64_t row = 0; row < count; x = 0) {
    const int64_t pixels = std::min(count - row, width - x);
    line(row, n, y, x, pixels);
    row += pixels;
    if (++y == height) y = 0, ++n;
  }
}

}  // namespace

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
  const int64_t last_x = inputs_[0].width * inputs_[0].upsample - 1 - taps_.back().x;
  inside_begin_ = (pad_x_ + stride_x_ - 1) / stride_x_;
  inside_end_ = last_x + pad_x_ < 0 ? 0 : (last_x + pad_x_) / stride_x_ + 1;
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

void WindowRows::point_inside(const float** to, int64_t row, int64_t count, int64_t n, int64_t y, int64_t x) const {
  const size_t inputs = inputs_.size();
  if (inputs == 1) {
    const Source& in = inputs_[0];
    const float* first = in.base + n * in.n + y * in.y + x * in.x;
    return point_run(to, row, count, part_offsets_, first, stride_x_ * in.x);
  }
  for (int64_t i = 0; i < count; ++i) {
    const float** here = place(to, row + i, parts_.size());
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Source& in = inputs_[static_cast<size_t>(parts_[p].source) % inputs];
      here[p * igemm::tile_rows] = in.base + n * in.n + y * in.y + (x + i * stride_x_) * in.x + part_offsets_[p];
    }
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
  if (pixels_ && parts_.size() == 1) {
    // A 1 × 1 window over one image: rows are pixels, one after the other.
    const float* base = inputs_[0].base + first * inputs_[0].x + parts_[0].offset;
    for (int64_t i = 0; i < count; ++i) to[i] = base + i * inputs_[0].x;
    return;
  }
  each_line(first, count, out_height_, out_width_, [&](int64_t row, int64_t n, int64_t y, int64_t x, int64_t pixels) {
    const int64_t at_y = y * stride_y_ - pad_y_;
    const auto at_border = [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end; ++i)
        point_at_border(place(to, row + i, parts_.size()), n, at_y, (x + i) * stride_x_ - pad_x_);
    };
    if (upsamples_ || at_y < 0 || at_y > last_y_) return at_border(0, pixels);
    // Those wholly inside lie between two numbers of pixels.
    const int64_t begin = std::clamp<int64_t>(inside_begin_ - x, 0, pixels), end = std::clamp(inside_end_ - x, begin, pixels);
    at_border(0, begin);
    if (begin < end) point_inside(to, row + begin, end - begin, n, at_y, (x + begin) * stride_x_ - pad_x_);
    at_border(end, pixels);
  });
}

PaddedRows::PaddedRows(const Problem& p, const std::vector<igemm::Part>& parts)
    : height(p.x[0].shape[2] + p.pad_begin[0] + p.pad_end[0]),
      width(p.x[0].shape[3] + p.pad_begin[1] + p.pad_end[1]),
      batch_(p.y[0]),
      channels_(p.channels()),
      out_height_(p.y[2]),
      out_width_(p.y[3]),
      stride_y_(p.stride[0]),
      stride_x_(p.stride[1]) {
  for (const igemm::Part& part : parts) part_offsets_.push_back(part.source * p.dilation[0] * width * channels_ + part.offset);
}

int64_t PaddedRows::floats() const { return batch_ * height * width * channels_; }

void PaddedRows::point(int64_t first, int64_t count, const float** to) const {
  const int64_t row_floats = width * channels_;
  each_line(first, count, out_height_, out_width_, [&](int64_t row, int64_t n, int64_t y, int64_t x, int64_t pixels) {
    const float* corner = base_ + (n * height + y * stride_y_) * row_floats + x * stride_x_ * channels_;
    point_run(to, row, pixels, part_offsets_, corner, stride_x_ * channels_);
  });
}

}  // namespace smelt::ops::conv
