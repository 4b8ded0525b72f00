#include "ops/conv/cpu_int8_image.h"

#include <algorithm>

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {

ByteImage::ByteImage(const BoundTensor& x, const Shape& pad_begin, const Shape& pad_end, bool flips, int threads)
    : batch_(x.shape[0]),
      channels_(x.shape[1]),
      height_(x.shape[2] + pad_begin[0] + pad_end[0]),
      width_(x.shape[3] + pad_begin[1] + pad_end[1]),
      from_height_(x.shape[2]),
      from_width_(x.shape[3]),
      pad_y_(pad_begin[0]),
      pad_x_(pad_begin[1]),
      steps_(memory_strides(x)),
      flip_(flips ? 128 : 0),
      threads_(useful_threads(threads, bytes() / 8)) {}

void ByteImage::run(uint8_t* to, const uint8_t* from, uint8_t fill) const {
  const bool dense = (steps_[1] == 1 || channels_ == 1) && steps_[3] == channels_;
  parallel(threads_, batch_ * height_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = line / height_, y = line % height_ - pad_y_;
      uint8_t* out = to + line * width_ * channels_;
      if (y < 0 || y >= from_height_) {
        std::fill_n(out, width_ * channels_, fill);
        continue;
      }
      const uint8_t* in = from + n * steps_[0] + y * steps_[2];
      out = std::fill_n(out, pad_x_ * channels_, fill);
      const int64_t count = from_width_ * channels_;
      if (dense) {
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] ^ flip_;
      } else {
        for (int64_t c = 0; c < channels_; ++c)
          for (int64_t x = 0; x < from_width_; ++x) out[x * channels_ + c] = in[c * steps_[1] + x * steps_[3]] ^ flip_;
      }
      std::fill_n(out + count, (width_ - pad_x_ - from_width_) * channels_, fill);
    }
  });
}

}  // namespace smelt::ops::conv
