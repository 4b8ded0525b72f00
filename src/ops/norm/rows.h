// What the processor's normalisations of rows share: the vectorised functions of a type on this CPU, and rows cut into pieces.
#pragma once

#include <cmath>

#include "ops/core/tactic.h"
#include "ops/cpu/parallel.h"
#include "ops/norm/moments.h"
#include "ops/norm/simd/rows.h"

namespace smelt::ops {

/// The functions for f32, f16, bf16 and f64; null for other types.
const NormRow* norm_row(DType t);
ShortRows short_rows();

/// The moments of n elements; about 0 unless `centre`.
inline Moments moments_of(const NormRow& row, const void* x, int64_t n, bool centre) {
  Moments m;
  row.moments(x, n, centre, &m.mean, &m.variance);
  return m;
}

/// Rows of `width` elements in two steps: a row's moments, then what is written of it. Where there are fewer rows than threads a row
/// is cut into pieces, whose moments are put together.
class RowPasses {
 public:
  RowPasses(int64_t rows, int64_t width, int threads)
      : rows_(rows),
        width_(width),
        threads_(useful_threads(threads, rows * width * 4)),
        pieces_(rows >= threads_ ? 1 : (threads_ + rows - 1) / rows),
        piece_((width + pieces_ - 1) / pieces_) {}

  int64_t workspace() const { return rows_ * pieces_ * static_cast<int64_t>(sizeof(Moments)); }

  /// moments(row, from, n) of a part of a row, then write(row, from, n, the row's moments) of each part.
  template <class M, class W> void run(void* workspace, M moments, W write) const {
    auto* found = static_cast<Moments*>(workspace);
    each_piece([&](int64_t p, int64_t row, int64_t from, int64_t n) {
      found[p] = moments(row, from, n);
      if (pieces_ == 1) write(row, from, n, found[p]);
    });
    if (pieces_ == 1) return;
    for (int64_t r = 0; r < rows_; ++r) found[r * pieces_] = joined(found + r * pieces_);
    each_piece([&](int64_t, int64_t row, int64_t from, int64_t n) { write(row, from, n, found[row * pieces_]); });
  }

 private:
  template <class F> void each_piece(F&& f) const {
    parallel(threads_, rows_ * pieces_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t from = std::min(width_, p % pieces_ * piece_);
        f(p, p / pieces_, from, std::min(piece_, width_ - from));
      }
    });
  }
  int64_t length(int64_t piece) const { return std::clamp<int64_t>(width_ - piece * piece_, 0, piece_); }
  Moments joined(const Moments* parts) const {
    Moments m;
    const auto width = static_cast<double>(width_);
    for (int64_t i = 0; i < pieces_; ++i)
      if (length(i) > 0) m.mean += parts[i].mean * (static_cast<double>(length(i)) / width);
    for (int64_t i = 0; i < pieces_; ++i) {
      const double apart = parts[i].mean - m.mean;
      if (length(i) > 0) m.variance += (parts[i].variance + apart * apart) * (static_cast<double>(length(i)) / width);
    }
    return m;
  }

  int64_t rows_, width_;
  int threads_;
  int64_t pieces_, piece_;
};

/// "cpu rows": cpu_mean_variance.cpp. False, and nothing offered, where the normalised axes are not rows that lie behind each other, or long.
bool offer_mean_variance_rows(const BoundNode& b, const std::vector<int64_t>& axes, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
