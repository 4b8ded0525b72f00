// DFT and STFT in the same terms: lines of elements, from which others become.
#pragma once

#include "ops/core/tactic.h"
#include "ops/signal/simd/fourier.h"

namespace smelt::ops {

/// Two axes of lines, with numbers from one to the next.
struct FourierLines {
  int64_t outer = 1, inner = 1;
  int64_t from_outer = 0, from_inner = 0, to_outer = 0, to_inner = 0;
};

/// A DFT or an STFT as lines that are transformed each by itself.
struct FourierProblem {
  FourierLines lines;
  DType type = DType::f32;
  bool inverse = false, half = false;  // of a half spectrum
  int64_t length = 1, read = 0, written = 0;
  int64_t parts_in = 1, parts_out = 2, step_in = 1, step_out = 2;
  bool windowed = false;
  Tensor window;  // where it is constant

  int64_t count() const { return lines.outer * lines.inner; }
  LineForm form() const;
  /// Of the complex transform inside.
  int64_t values() const { return form() == LineForm::real || form() == LineForm::half ? length / 2 : length; }
  /// What elements are multiplied by when they are read.
  double scale() const;
};

/// Refused where it is computed how long the lines are, or where they lie, or where their type or layout has no kernel.
Result<FourierProblem> fourier_problem(const BoundNode& b);

}  // namespace smelt::ops
