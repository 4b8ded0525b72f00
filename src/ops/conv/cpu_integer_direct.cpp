// ConvInteger of few channels or outputs, grouped or not: a direct loop over all places of a tap.
#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/conv/integer_form.h"
#include "ops/conv/simd/integer_taps.h"
#include "ops/core/align.h"
#include "ops/core/quantized_program.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"

namespace smelt::ops::conv {
namespace {

const IntegerTaps& taps_table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::integer_taps();
  return simd::best() == simd::Isa::avx2 ? avx2::integer_taps() : base::integer_taps();
}

/// How DirectIntegerConv goes through its work.
struct DirectPlan {
  static constexpr int64_t most_widened = 1 << 17;  // elements: they stay in the core's cache

  DirectPlan(const IntegerForm& f, int most_threads)
      : threads(useful_threads(most_threads, f.batch * f.outputs * f.plane() * f.depth() / 8)),
        pitch(divide_up(f.padded[2], f.stride[2])),
        chunks(std::clamp(std::max(4 * threads / (f.batch * f.group), divide_up(f.out[1], most_lines(f))), int64_t{1}, f.out[1])),
        lines(divide_up(f.out[1], chunks)),
        rows((lines - 1) * f.stride[1] + (f.kernel[1] - 1) * f.dilation[1] + 1),
        plane(divide_up(rows, f.stride[1]) * pitch),
        slice(plane * f.stride[1] * f.stride[2]),
        channel(f.padded[0] * slice),
        channels(std::clamp<int64_t>(most_widened / channel, 1, f.group_channels())) {
    // Of a result and a chunk: its blocks line by line, or of all lines at once and each line copied from there.
    const auto folded_ns = [&](int64_t count) {
      return static_cast<double>(count) * (block_ns() * static_cast<double>(divide_up(channels * f.taps(), 2)) + store_ns);
    };
    const double copied_ns = static_cast<double>(lines) * (line_ns + pixel_ns * static_cast<double>(f.out[2]));
    joins = lines > 1 && folded_ns(blocks(places(lines, f))) + copied_ns < folded_ns(lines * blocks(f.out[2]));
  }
  // Of a core: a block of places by a pair of taps, and its sums stored; a line copied, and each of its pixels.
  static double block_ns() { return simd::widest() == simd::Isa::avx512 ? 0.8 : 1.6; }
  static constexpr double store_ns = 1.5, line_ns = 6, pixel_ns = 0.1;
  static int64_t blocks(int64_t places) { return divide_up(places, integer_taps_block); }
  /// Lines whose pixels, and whose sums of all outputs, stay in the core's cache.
  int64_t most_lines(const IntegerForm& f) const {
    constexpr int64_t most_elements = 1 << 16;
    return std::max<int64_t>(1, most_elements / (pitch * std::max(f.group_outputs(), f.padded[0] * f.stride[1] * f.stride[2])));
  }
  int64_t places(int64_t some_lines, const IntegerForm& f) const { return (some_lines - 1) * pitch + f.out[2]; }
  /// Pairs of taps times blocks of places times results, of all.
  double work(const IntegerForm& f) const {
    const int64_t of_chunks = chunks * (joins ? blocks(places(lines, f)) : lines * blocks(f.out[2]));
    return static_cast<double>(f.batch * f.outputs * f.out[0] * of_chunks) * static_cast<double>(divide_up(f.depth(), 2));
  }

  int threads;
  int64_t pitch;                // elements of a line of a remainder of columns by the stride
  int64_t chunks, lines, rows;  // of the lines of a slice, in so many chunks of so many; the rows of the image that one reads
  int64_t plane;                // elements of what rows have of one remainder of rows and columns
  int64_t slice, channel;       // elements of all these planes, and of all slices of a channel
  int64_t channels;             // that are widened at a time
  bool joins = false;           // lines of the result are folded as one, what lies between them too
};

/// A few channels: the padded image of some channels as integers of 16 bits less the zero point, in as many planes as the strides say, so
/// that every tap of all places reads elements that lie side by side; then all taps of these channels, line by line or of all lines at once.
class DirectIntegerConv final : public Kernel {
 public:
  DirectIntegerConv(const BoundNode& b, const IntegerForm& f, int threads)
      : f_(f), plan_(f, threads), is_signed_(b.inputs[0].type == DType::i8), has_zero_(b.has(2)) {
    const int64_t taps = f.taps();
    for (int64_t k = 0; k < plan_.channels; ++k)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t x = t % f.kernel[2] * f.dilation[2], y = t / f.kernel[2] % f.kernel[1] * f.dilation[1],
                      z = t / f.kernel[2] / f.kernel[1] * f.dilation[0];
        offsets_.push_back(k * plan_.channel + z * plan_.slice + (y % f.stride[1] * f.stride[2] + x % f.stride[2]) * plan_.plane +
                           y / f.stride[1] * plan_.pitch + x / f.stride[2]);
      }
    if (offsets_.size() % 2 == 1) offsets_.push_back(0);  // its weight is 0
    pairs_of_output_ = 0;
    for (int64_t k = 0; k < f.group_channels(); k += plan_.channels)
      pairs_of_output_ += divide_up(std::min(plan_.channels, f.group_channels() - k) * taps, 2);
    w_signed_ = b.inputs[1].type == DType::i8;
    w_zeros_ = b.has(3) ? elements(b.inputs[3].shape) : 0;
    computed_ = !b.inputs[1].constant.valid() || (b.has(3) && !b.constant(3));
    if (computed_) return;
    pairs_.resize(static_cast<size_t>(f.outputs * pairs_of_output_));
    const void* zeros = b.has(3) ? b.inputs[3].constant.raw() : nullptr;
    make_pairs(b.inputs[1].constant.raw(), zeros, 0, f.outputs, pairs_.data());
  }
  int64_t workspace() const override { return pairs_bytes() + plan_.threads * (own_bytes() + joined_bytes()); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const uint8_t*>(b.inputs[0]);
    auto* y = static_cast<int32_t*>(b.outputs[0]);
    const uint8_t zero = has_zero_ ? *static_cast<const uint8_t*>(b.inputs[2]) : uint8_t{0};
    const int32_t widened = is_signed_ ? static_cast<int8_t>(zero) : zero;
    const int32_t* pairs = pairs_.data();
    if (computed_) {
      auto* own = static_cast<int32_t*>(b.workspace);
      const void* zeros = w_zeros_ > 0 ? b.inputs[3] : nullptr;
      parallel(useful_threads(plan_.threads, f_.outputs * f_.depth()), f_.outputs, 1, [&](int64_t begin, int64_t end, int) {
        make_pairs(b.inputs[1], zeros, begin, end, own + begin * pairs_of_output_);
      });
      pairs = own;
    }
    parallel(plan_.threads, f_.batch * f_.group * plan_.chunks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* memory = static_cast<char*>(b.workspace) + pairs_bytes() + thread * (own_bytes() + joined_bytes());
      auto* own = reinterpret_cast<int16_t*>(memory);
      auto* joined = reinterpret_cast<int32_t*>(memory + own_bytes());
      if (begin < end) std::memset(own, 0, static_cast<size_t>(own_bytes()));
      for (int64_t i = begin; i < end; ++i)
        run_chunk(x, y, pairs, own, joined, widened, i / plan_.chunks, i % plan_.chunks * plan_.lines);
    });
  }

 private:
  /// Weights less their zero points of outputs [first, last), by output, then by the channels that are widened at a time, two to a pair.
  void make_pairs(const void* w, const void* zeros, int64_t first, int64_t last, int32_t* to) const {
    const auto number = [&](const void* from, int64_t i) -> int32_t {
      return w_signed_ ? static_cast<const int8_t*>(from)[i] : static_cast<const uint8_t*>(from)[i];
    };
    const int64_t depth = f_.depth(), some = plan_.channels * f_.taps();
    for (int64_t m = first; m < last; ++m) {
      const int32_t zero = zeros ? number(zeros, w_zeros_ == 1 ? 0 : m) : 0;
      for (int64_t begin = 0; begin < depth; begin += some) {
        const int64_t end = std::min(begin + some, depth);
        for (int64_t i = begin; i < end; i += 2) {
          const int32_t low = number(w, m * depth + i) - zero, high = i + 1 < end ? number(w, m * depth + i + 1) - zero : 0;
          *to++ = static_cast<int32_t>(static_cast<uint32_t>(high) << 16 | (static_cast<uint32_t>(low) & 0xffff));
        }
      }
    }
  }

  int64_t pairs_bytes() const { return computed_ ? aligned(f_.outputs * pairs_of_output_ * 4) : 0; }
  int64_t own_bytes() const { return aligned((plan_.channels * plan_.channel + 2 * integer_taps_block) * 2); }
  int64_t joined_bytes() const { return plan_.joins ? aligned(f_.group_outputs() * plan_.places(plan_.lines, f_) * 4) : 0; }

  /// The outputs of a group, lines `first_line` and some from there of each slice.
  void run_chunk(const uint8_t* x, int32_t* y, const int32_t* pairs, int16_t* own, int32_t* joined, int32_t zero, int64_t group,
                 int64_t first_line) const {
    const int64_t n = group / f_.group, g = group % f_.group, c = f_.group_channels(), outputs = f_.group_outputs();
    const int64_t lines = std::min(plan_.lines, f_.out[1] - first_line);
    if (lines <= 0) return;
    const IntegerTaps& taps = taps_table();
    int64_t pairs_before = 0;
    for (int64_t k = 0; k < c; k += plan_.channels) {
      const int64_t some = std::min(plan_.channels, c - k), count = (some * f_.taps() + 1) / 2;
      for (int64_t i = 0; i < some; ++i)
        widen(taps, x + n * f_.from[0] + (g * c + k + i) * f_.from[1], zero, first_line * f_.stride[1], own + i * plan_.channel);
      TapSums sums{.from = own,
                   .offsets = offsets_.data(),
                   .pairs = pairs + g * outputs * pairs_of_output_ + pairs_before,
                   .pairs_step = pairs_of_output_,
                   .count = count,
                   .adds = k > 0,
                   .results = outputs,
                   .places = f_.out[2],
                   .to = nullptr,
                   .to_step = f_.plane()};
      for (int64_t d = 0; d < f_.out[0]; ++d) {
        int32_t* to = y + (((n * f_.outputs + g * outputs) * f_.out[0] + d) * f_.out[1] + first_line) * f_.out[2];
        sums.from = own + d * f_.stride[0] * plan_.slice;
        if (plan_.joins) {
          fold_joined(taps, sums, joined, lines, to);
          continue;
        }
        for (int64_t h = 0; h < lines; ++h, sums.from += plan_.pitch, to += f_.out[2]) {
          sums.to = to;
          taps.fold(sums);
        }
      }
      pairs_before += count;
    }
  }

  void fold_joined(const IntegerTaps& taps, TapSums sums, int32_t* joined, int64_t lines, int32_t* to) const {
    const int64_t width = f_.out[2], plane = f_.plane();
    const bool adds = sums.adds;
    sums.adds = false, sums.places = plan_.places(lines, f_);
    sums.to = joined, sums.to_step = sums.places;
    taps.fold(sums);
    for (int64_t m = 0; m < sums.results; ++m) {
      const int32_t* from = joined + m * sums.places;
      int32_t* lines_to = to + m * plane;
      if (!adds) {
        copy_lines(reinterpret_cast<char*>(lines_to), reinterpret_cast<const char*>(from), lines, width * 4, width * 4,
                   plan_.pitch * 4);
        continue;
      }
      for (int64_t h = 0; h < lines; ++h)
        for (int64_t i = 0; i < width; ++i)
          lines_to[h * width + i] = static_cast<int32_t>(static_cast<uint32_t>(lines_to[h * width + i]) +
                                                         static_cast<uint32_t>(from[h * plan_.pitch + i]));
    }
  }

  /// Rows `first` and those behind it of every slice of a channel's padded image; outside of the image they are zeros.
  void widen(const IntegerTaps& taps, const uint8_t* channel, int32_t zero, int64_t first, int16_t* to) const {
    const int64_t begin = std::max(first, f_.begin[1]), end = std::min(first + plan_.rows, f_.begin[1] + f_.in[1]);
    if (plan_.chunks > 1) std::fill_n(to, plan_.channel, int16_t{0});  // another chunk's rows lay where there are none now
    if (begin >= end) return;
    WidenedRows rows{.x = nullptr,
                     .is_signed = is_signed_,
                     .zero = zero,
                     .rows = end - begin,
                     .columns = f_.in[2],
                     .x_row = f_.from[3],
                     .x_column = f_.from[4],
                     .first_row = begin - first,
                     .first_column = f_.begin[2],
                     .stride_y = f_.stride[1],
                     .stride_x = f_.stride[2],
                     .plane = plan_.plane,
                     .pitch = plan_.pitch,
                     .to = nullptr};
    for (int64_t z = 0; z < f_.in[0]; ++z) {
      rows.x = channel + z * f_.from[2] + (begin - f_.begin[1]) * f_.from[3];
      rows.to = to + (z + f_.begin[0]) * plan_.slice;
      taps.widen(rows);
    }
  }

  IntegerForm f_;
  DirectPlan plan_;
  bool is_signed_, has_zero_;
  std::vector<int64_t> offsets_;              // of the taps of the channels that are widened at a time
  bool w_signed_ = false, computed_ = false;  // the weights; pairs are made in the run
  int64_t w_zeros_ = 0, pairs_of_output_ = 0;
  std::vector<int32_t> pairs_;  // of constant weights
};

/// Of a core: a block of 32 places by a pair of taps, an element widened and a result.
double direct_us(const IntegerForm& f, int threads) {
  const DirectPlan plan(f, threads);
  const double widen_ns = f.stride[2] == 1 ? 0.2 : 1;
  const auto widened = static_cast<double>(f.batch * f.channels * f.padded[0] * f.padded[1] * f.padded[2]);
  const auto results = static_cast<double>(f.batch * f.outputs * f.plane());
  return 2 + 1e-3 * (plan.work(f) * DirectPlan::block_ns() + widened * widen_ns + results * 0.2) / plan.threads;
}

}  // namespace

void offer_integer_direct(const BoundNode& b, const IntegerForm& f, const Machine& machine, Offer& offer) {
  offer.candidates.push_back({"cpu", "direct", direct_us(f, machine.threads),
                              [b, f, threads = machine.threads] { return std::make_unique<DirectIntegerConv>(b, f, threads); }});
}

}  // namespace smelt::ops::conv
