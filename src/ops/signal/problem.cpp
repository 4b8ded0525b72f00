#include "ops/signal/problem.h"

#include <algorithm>

#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/signal/fourier.h"

namespace smelt::ops {

LineForm FourierProblem::form() const {
  const bool even = length % 2 == 0;
  if (half) return even ? LineForm::half : LineForm::odd_half;
  return parts_in == 1 && even ? LineForm::real : LineForm::complex;
}

double FourierProblem::scale() const {
  // The spectrum of a real signal is found as twice itself.
  return (inverse ? 1 / static_cast<double>(length) : 1) * (form() == LineForm::real ? 0.5 : 1);
}

namespace {

/// An integer input that is known; nothing where it is left out.
Result<std::optional<int64_t>> known(const BoundNode& b, size_t i, const char* what) {
  if (!b.has(i)) return std::optional<int64_t>();
  if (!b.constant(i)) return refuse(Reason::not_constant, "{} is computed", what);
  return std::optional(b.constant(i)->to_ints().at(0));
}

Result<FourierProblem> dft_problem(const BoundNode& b) {
  const auto length = known(b, 1, "dft_length"), axis = known(b, 2, "axis");
  if (!length) return length.refusal();
  if (!axis) return axis.refusal();
  const Shape& x = b.inputs[0].shape;
  const Dft d = dft_of(*b.node, x, *length, *axis);
  const AxisView in = around_axis(x, d.axis), out = around_axis(d.y, d.axis);
  FourierProblem p{.type = b.inputs[0].type, .inverse = d.inverse, .half = d.inverse && d.onesided, .window = {}};
  p.length = d.length;
  p.read = std::min(in.extent, p.half ? p.length / 2 + 1 : p.length);
  p.written = out.extent;
  p.parts_in = x.back();
  p.parts_out = d.y.back();
  p.step_in = in.inner;
  p.step_out = out.inner;
  p.lines = {in.outer, in.inner / p.parts_in, in.extent * in.inner, p.parts_in, out.extent * out.inner, p.parts_out};
  return p;
}

Result<FourierProblem> stft_problem(const BoundNode& b) {
  const auto step = known(b, 1, "frame_step"), frame = known(b, 3, "frame_length");
  if (!step) return step.refusal();
  if (!frame) return frame.refusal();
  const Stft s = stft_of(*b.node, b.inputs[0].shape, step->value_or(0), b.has(2) ? &b.inputs[2].shape : nullptr, *frame);
  FourierProblem p{.type = b.inputs[0].type, .length = s.frame, .read = s.frame, .written = s.y[2], .window = {}};
  p.parts_in = p.step_in = s.parts;
  p.windowed = b.has(2);
  if (b.constant(2)) p.window = *b.constant(2);
  p.lines = {s.batch, s.y[1], s.samples * s.parts, s.step * s.parts, s.y[1] * s.y[2] * 2, s.y[2] * 2};
  return p;
}

}  // namespace

Result<FourierProblem> fourier_problem(const BoundNode& b) {
  if (const auto why = rejects_layouts(b)) return *why;
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return refuse(Reason::wrong_type, "elements of {}", name(type));
  if (b.has(2) && b.node->is("STFT") && b.inputs[2].type != type)
    return refuse(Reason::wrong_type, "a window of {} over {}", name(b.inputs[2].type), name(type));
  return b.node->is("DFT") ? dft_problem(b) : stft_problem(b);
}

}  // namespace smelt::ops
