// Convolutions of few channels and few outputs a group, along one, two or three axes of plain images, tap by tap: what those of floats and of
// bytes share. The padded lines of a group are copied as floats into memory that a core's cache holds, in as many planes as the strides say, so
// that every tap of all places reads floats that lie side by side; no columns are made, and no count of channels or outputs fills a register in
// part.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/conv/integer_form.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/float_taps.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {

/// The functions for this processor.
const FloatTaps& float_taps();

/// How a group's lines are gone through: some at a time, all slices of them.
struct TapsPlan {
  static constexpr int64_t most_floats = 1 << 16;  // of the copy, and of the sums: the L2 cache holds both

  TapsPlan(const IntegerForm& f, int most_threads);
  void set_lines(const IntegerForm& f, int64_t n);

  int threads;
  int64_t pitch;                              // floats of a line of a remainder of columns by the stride
  int64_t chunks = 1, lines = 1, rows = 1;    // chunks of the lines of a slice; the rows of the image that one reads
  int64_t plane = 0, slice = 0, channel = 0;  // floats of what rows have of one remainder, of a slice, of a channel
  int64_t places = 0, to_step = 0;            // of all lines of a chunk as one, what lies between them too
};

/// Lines of the sums of one output channel, side by side in the output from element `at` on. `row`: memory of the thread's, of taps_row().
struct TapsLines {
  const float* sums;
  int64_t step, lines, columns;  // floats from a line to the next; how many, of so many floats each; 16 more may be read of each
  int64_t channel, at;
  int thread;
  float* row;
};

class Taps {
 public:
  /// `row_floats`: what TapsLines::row has beside a line.
  Taps(const Problem& p, int threads, int64_t row_floats = 0);

  /// Why the extents, the layouts or the channels do not suit; nothing where they do.
  static std::optional<Refusal> rejects(const BoundNode& node, const Problem& p, int threads);
  /// A core: 32 places of a tap and a result, a float copied, a result written.
  static double estimate_us(const Problem& p, int threads);

  const IntegerForm& form() const { return f_; }
  const TapsPlan& plan() const { return plan_; }
  /// [M, C / group, taps], or of a transposed one [C, M / group, taps], as run() reads them: form().outputs · form().depth() floats.
  void pack(const float* w, float* out) const;
  /// What packed weights depend on beside them.
  Key packing() const;

  int64_t workspace() const { return plan_.threads * thread_bytes() + aligned(plan_.threads); }
  /// load(at, n, to): gives n elements of the image from element `at` on as floats, in `to` or elsewhere. finish(lines): what follows.
  template <class Load, class Finish>
  void run(const float* packed, void* workspace, const Load& load, const Finish& finish) const {
    // By thread, whether its copy is zeros where no image lies: what is copied later leaves these places alone.
    char* is_clear = static_cast<char*>(workspace) + plan_.threads * thread_bytes();
    std::fill_n(is_clear, plan_.threads, char{0});
    parallel(plan_.threads, f_.batch * f_.group * plan_.chunks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* memory = static_cast<char*>(workspace) + thread * thread_bytes();
      auto* own = reinterpret_cast<float*>(memory);
      auto* sums = reinterpret_cast<float*>(memory + own_bytes());
      TapsLines lines{sums, plan_.pitch, 0,      f_.out[2],
                      0,    0,           thread, reinterpret_cast<float*>(memory + own_bytes() + sums_bytes())};
      if (!std::exchange(is_clear[thread], char{1})) std::memset(own, 0, static_cast<size_t>(own_bytes()));
      for (int64_t i = begin; i < end; ++i)
        chunk(i / plan_.chunks, i % plan_.chunks * plan_.lines, packed, own, sums, lines, load, finish);
    });
  }

 private:
  int64_t own_bytes() const { return aligned((f_.group_channels() * plan_.channel + float_taps_slack) * 4); }
  int64_t sums_bytes() const { return aligned(f_.group_outputs() * plan_.to_step * 4); }
  int64_t thread_bytes() const { return own_bytes() + sums_bytes() + aligned((std::max(f_.in[2], f_.out[2]) + row_floats_) * 4); }
  /// Where weight `k` of output i lies in [C, M, taps] of a transposed one.
  int64_t turned(int64_t group, int64_t i, int64_t k) const;

  template <class Load, class Finish> void chunk(int64_t group, int64_t first_line, const float* packed, float* own, float* sums,
                                                 TapsLines& l, const Load& load, const Finish& finish) const {
    const int64_t n = group / f_.group, g = group % f_.group, channels = f_.group_channels(), outputs = f_.group_outputs();
    l.lines = std::min(plan_.lines, f_.out[1] - first_line);
    if (l.lines <= 0) return;
    for (int64_t c = 0; c < channels; ++c)
      copy(n * f_.channels + g * channels + c, first_line * f_.stride[1], own + c * plan_.channel, l.row, load);
    const int64_t places = (l.lines - 1) * plan_.pitch + f_.out[2];
    for (int64_t d = 0; d < f_.out[0]; ++d) {
      float_taps().fold({own + d * f_.stride[0] * plan_.slice, offsets_.data(), packed + g * outputs * f_.depth(), f_.depth(),
                         outputs, places, sums, plan_.to_step});
      for (int64_t m = 0; m < outputs; ++m) {
        l.sums = sums + m * plan_.to_step;
        l.channel = g * outputs + m;
        l.at = (((n * f_.outputs + l.channel) * f_.out[0] + d) * f_.out[1] + first_line) * f_.out[2];
        finish(l);
      }
    }
  }

  /// Where the columns without a remainder lie of a row of the copy.
  float* line_at(int64_t z, int64_t row, float* to) const {
    return to + (z + f_.begin[0]) * plan_.slice + row % f_.stride[1] * f_.stride[2] * plan_.plane +
           row / f_.stride[1] * plan_.pitch;
  }
  void clear_rows(int64_t begin, int64_t end, int64_t first, float* to) const;

  /// Rows `first` and those behind it of every slice of a channel's padded image; outside of the image they are zeros.
  template <class Load> void copy(int64_t channel, int64_t first, float* to, float* row, const Load& load) const {
    const int64_t begin = std::max(first, f_.begin[1]), end = std::min(first + plan_.rows, f_.begin[1] + f_.in[1]);
    const int64_t columns = f_.in[2], stride = f_.stride[2];
    if (plan_.chunks > 1) {  // another chunk's rows lay where there are none now
      clear_rows(first, std::min(begin, first + plan_.rows), first, to);
      clear_rows(std::max(end, first), first + plan_.rows, first, to);
    }
    for (int64_t z = 0; z < f_.in[0]; ++z)
      for (int64_t r = begin; r < end; ++r) {
        float* line = line_at(z, r - first, to);
        float* place = stride == 1 ? line + f_.begin[2] : row;
        const float* values = load(((channel * f_.in[0] + z) * f_.in[1] + r - f_.begin[1]) * columns, columns, place);
        if (stride == 1) {
          if (values != place) std::memcpy(place, values, static_cast<size_t>(columns) * 4);
          continue;
        }
        for (int64_t p = 0; p < stride; ++p) {
          const int64_t skipped = ((p - f_.begin[2]) % stride + stride) % stride;
          float* part = line + p * plan_.plane + (f_.begin[2] + skipped) / stride;
          for (int64_t i = skipped; i < columns; i += stride) *part++ = values[i];
        }
      }
  }

  IntegerForm f_;
  TapsPlan plan_;
  bool transposed_;
  int64_t row_floats_;
  std::vector<int64_t> offsets_;
};

}  // namespace smelt::ops::conv
