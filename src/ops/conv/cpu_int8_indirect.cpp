// Convolution of 8-bit integers, exact: the image less its zero point is copied once as 16-bit integers, with its padding in
// place (with a window of one pixel, each task widens the pixels it reads); igemm's integer tile multiplies pairs of them. Two
// spatial axes, channels-last results; any group, any dilation.
#include <fmt/core.h>

#include <algorithm>

#include "base/value_of.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/integer.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/integer/widened_rows.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

int64_t pairs(int64_t elements) { return (elements + 1) / 2; }

bool has_one_tap(const Problem& p) {
  return p.w[2] == 1 && p.w[3] == 1 && p.pad_begin == Shape{0, 0} && p.pad_end == Shape{0, 0};
}

/// The copy's extents. Windows of one tap take only the pixels they read, so that they lie one after the other.
struct Copy {
  int64_t batch, channels, height, width;  // of the copy
  int64_t from_height, from_width;         // of the image
  int64_t step_y = 1, step_x = 1, pad_y = 0, pad_x = 0;
  int64_t stride_y = 1, stride_x = 1;  // of windows over the copy

  explicit Copy(const Problem& p)
      : batch(p.y[0]), channels(p.x[0].shape[1]), from_height(p.x[0].shape[2]), from_width(p.x[0].shape[3]) {
    if (has_one_tap(p)) {
      height = p.y[2], width = p.y[3];
      step_y = p.stride[0], step_x = p.stride[1];
      return;
    }
    height = from_height + p.pad_begin[0] + p.pad_end[0];
    width = from_width + p.pad_begin[1] + p.pad_end[1];
    pad_y = p.pad_begin[0], pad_x = p.pad_begin[1];
    stride_y = p.stride[0], stride_x = p.stride[1];
  }
  int64_t row() const { return width * channels; }
  int64_t elements() const { return batch * height * row(); }
};

/// A row of A is the window's rows (or its taps, where those do not lie side by side), from its first pixel in the copy.
class ImageRows final : public igemm::Rows {
 public:
  ImageRows(const Problem& p, const Copy& copy, std::vector<int64_t> offsets)
      : p_(p), copy_(copy), offsets_(std::move(offsets)) {}
  /// `image`: the copy, from the group's first channel on.
  void set_image(const int16_t* image) { image_ = image; }
  void point(int64_t first, int64_t count, const float** to) const override {
    const int64_t out_height = p_.y[2], out_width = p_.y[3];
    int64_t x = first % out_width, y = first / out_width % out_height, n = first / out_width / out_height;
    const size_t tile = offsets_.size() * igemm::tile_rows;
    for (int64_t i = 0; i < count; ++i) {
      const int16_t* corner =
          image_ + (n * copy_.height + y * copy_.stride_y) * copy_.row() + x * copy_.stride_x * copy_.channels;
      const float** here = to + static_cast<size_t>(i / igemm::tile_rows) * tile + i % igemm::tile_rows;
      for (size_t p = 0; p < offsets_.size(); ++p)
        here[p * igemm::tile_rows] = reinterpret_cast<const float*>(corner + offsets_[p]);
      if (++x < out_width) continue;
      x = 0;
      if (++y < out_height) continue;
      y = 0;
      ++n;
    }
  }

 private:
  const Problem& p_;
  const Copy& copy_;
  std::vector<int64_t> offsets_;  // of each part
  const int16_t* image_ = nullptr;
};

class Int8Indirect final : public Kernel {
 public:
  explicit Int8Indirect(const Request& q)
      : p_(q.problem),
        copy_(p_),
        threads_(q.threads),
        x_(q.node.inputs[q.at.x]),
        x_input_(q.at.x),
        zero_(q),
        start_(start_of_sums(q)),
        epilogue_(q.node, q.at.operands, 1, q.quantization().scales) {
    const int64_t taps_y = p_.w[2], taps_x = p_.w[3];
    // Elements of A's row that lie side by side: a row of the window over all channels, or one tap's.
    rows_of_window_ = p_.group == 1 && p_.dilation[1] == 1;
    const std::vector<int64_t> lengths(static_cast<size_t>(rows_of_window_ ? taps_y : taps_y * taps_x),
                                       pairs(rows_of_window_ ? taps_x * copy_.channels : p_.w[1]));
    const std::vector<igemm::Part> parts = igemm::split(lengths);
    std::vector<int64_t> offsets;
    for (const igemm::Part& part : parts) {
      const int64_t y = rows_of_window_ ? part.source : part.source / taps_x, x = rows_of_window_ ? 0 : part.source % taps_x;
      offsets.push_back(y * p_.dilation[0] * copy_.row() + x * p_.dilation[1] * copy_.channels + 2 * part.offset);
    }
    const Shape from = memory_strides(x_);
    if (has_one_tap(p_) && p_.group == 1 && (from[1] == 1 || copy_.channels == 1)) {
      const igemm::RowMap pixels(Shape{p_.y[0], p_.y[2], p_.y[3]},
                                 Shape{from[0], from[2] * p_.stride[0], from[3] * p_.stride[1]});
      pixels_.emplace(pixels, copy_.channels, x_.type == DType::i8, parts);
    } else {
      rows_.emplace(p_, copy_, std::move(offsets));
    }
    schedule_ = igemm::schedule(p_.y[0] * p_.y[2] * p_.y[3], p_.y[1] / p_.group, parts, true, threads_);
    if (pixels_) schedule_.row_bytes = pixels_->copy_bytes(schedule_.block_tiles * igemm::tile_rows);
    schedule_.narrow = has_narrow_weights(q) && schedule_.m > igemm::fewest_rows_to_widen;
    const auto make = [&] { return pack(q, parts); };
    const Tensor& w = q.weight().constant;
    const std::string form =
        fmt::format("{}{}", rows_of_window_ ? "pairs-rows" : "pairs-taps", schedule_.narrow ? "-narrow" : "");
    packed_ = q.node.weights ? q.node.weights->packed(w, int8_packing(q, form).text(), make) : make();
  }

  int64_t workspace() const override {
    return copy_bytes() + aligned(igemm::workspace(schedule_)) + threads_ * epilogue_.scratch();
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    int16_t* image = reinterpret_cast<int16_t*>(memory);
    igemm::Run r;
    r.integer = true;
    if (pixels_) {
      pixels_->set(b.inputs[x_input_], zero_.of(b));
      r.rows = &*pixels_;
    } else {
      copy(image, static_cast<const uint8_t*>(b.inputs[x_input_]), zero_.of(b));
      memory += copy_bytes();
      r.rows = &value_of(rows_, "the rows of an image");
    }
    r.workspace = memory;
    memory += aligned(igemm::workspace(schedule_));
    const int64_t columns = schedule_.n;
    for (int64_t g = 0; g < p_.group; ++g) {
      if (rows_) rows_->set_image(image + g * p_.w[1]);
      const int64_t pair = schedule_.narrow ? 2 : 4;
      r.b = reinterpret_cast<const float*>(static_cast<const char*>(packed_.raw()) +
                                           g * igemm::packed_floats(schedule_.k, columns) * pair);
      r.bias = reinterpret_cast<const float*>(start_.data()) + g * columns;
      const CpuEpilogue::Runner finish(epilogue_, b, memory, g * columns);
      r.finish = &finish;
      igemm::run(schedule_, r);
    }
  }

 private:
  /// With room for the last pair of an odd number of elements.
  int64_t copy_bytes() const { return pixels_ ? 0 : aligned(copy_.elements() * 2 + 64); }

  Tensor pack(const Request& q, const std::vector<igemm::Part>& parts) const {
    const int64_t columns = schedule_.n, one = igemm::packed_floats(schedule_.k, columns);
    struct Source {
      int64_t part, pair;
    };
    std::vector<Source> sources;  // of each row of B
    for (size_t i = 0; i < parts.size(); ++i)
      for (int64_t k = 0; k < parts[i].length; ++k) sources.push_back({parts[i].source, parts[i].offset + k});
    return igemm::packed_pairs(schedule_.narrow, p_.group * one, [&](auto* to) {
      for (int64_t g = 0; g < p_.group; ++g) {
        igemm::pack_pairs(to + g * 2 * one, schedule_.k, columns, [&](int64_t k, int64_t n, int half) -> int16_t {
          const Source s = sources[static_cast<size_t>(k)];
          const int64_t element = 2 * s.pair + half, m = g * columns + n;
          if (!rows_of_window_) return element < p_.w[1] ? int8_weight(q, m, element, s.part) : int16_t{0};
          if (element >= p_.w[3] * copy_.channels) return 0;
          return int8_weight(q, m, element % copy_.channels, s.part * p_.w[3] + element / copy_.channels);
        });
      }
    });
  }

  /// [N, C, H, W] in any layout to 16-bit integers less the zero point, channels last; padding is 0.
  void copy(int16_t* to, const uint8_t* from, int32_t zero) const {
    const Shape s = memory_strides(x_);
    const bool is_signed = x_.type == DType::i8;
    const auto widen = is_signed ? avx2::integer_rows().widen_i8 : avx2::integer_rows().widen_u8;
    const int64_t channels = copy_.channels, row = copy_.row();
    const int64_t last_x = copy_.step_x == 1 ? copy_.from_width : copy_.width;  // pixels taken of a line
    parallel(useful_threads(threads_, copy_.elements() / 4), copy_.batch * copy_.height, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t n = line / copy_.height, y = line % copy_.height * copy_.step_y - copy_.pad_y;
        int16_t* out = to + line * row;
        if (y < 0 || y >= copy_.from_height) {
          std::fill_n(out, row, int16_t{0});
          continue;
        }
        std::fill_n(out, copy_.pad_x * channels, int16_t{0});
        out += copy_.pad_x * channels;
        const uint8_t* in = from + n * s[0] + y * s[2];
        const int64_t step = s[3] * copy_.step_x;
        if (s[1] == 1 || channels == 1) {
          if (step == channels)
            widen(out, in, last_x * channels, zero);
          else
            for (int64_t x = 0; x < last_x; ++x) widen(out + x * channels, in + x * step, channels, zero);
        } else {
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t x = 0; x < last_x; ++x) {
              const uint8_t v = in[c * s[1] + x * step];
              out[x * channels + c] = static_cast<int16_t>((is_signed ? static_cast<int8_t>(v) : v) - zero);
            }
        }
        out += last_x * channels;
        std::fill_n(out, row - (copy_.pad_x + last_x) * channels, int16_t{0});
      }
    });
  }

  Problem p_;
  Copy copy_;
  int threads_;
  BoundTensor x_;
  size_t x_input_;
  ImageZero zero_;
  bool rows_of_window_ = true;
  std::vector<int32_t> start_;
  CpuEpilogue epilogue_;
  std::optional<ImageRows> rows_;  // one of the two
  std::optional<integer::WidenedRows> pixels_;
  igemm::Schedule schedule_;
  Tensor packed_;
};

}  // namespace

void offer_int8_indirect(const Request& q, Offer& offer) {
  if (const auto why = rejects_int8(q, true)) return offer.refuse("avx2", *why);
  constexpr double flops_per_us = 150e3;  // one Zen 3 core at 3.2 GHz, measured: 164 in the tile, less the copy
  // Panels are at least 8 columns wide, and K counts in pairs.
  const Problem& p = q.problem;
  const int64_t group_columns = p.y[1] / p.group;
  const double groups = static_cast<double>(p.group), columns = static_cast<double>(group_columns),
               depth = static_cast<double>(p.w[1]);
  const double waste = std::max(1.0, 8 / columns) * std::max(1.0, 2 / depth);
  const double weights = static_cast<double>(elements(p.w)) / 12e3;  // from memory, at 12 GB/s
  offer.candidates.push_back({"avx2", "pairs", 3 * groups + (waste * p.flops() / flops_per_us + weights) / q.threads,
                              [q] { return std::make_unique<Int8Indirect>(q); }});
}

}  // namespace smelt::ops::conv
