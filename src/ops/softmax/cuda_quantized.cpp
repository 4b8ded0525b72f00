// QLinearSoftmax on a GPU (src/kernels/softmax/quantized.cuh), over the innermost axis.
#include <algorithm>
#include <bit>

#include "expr/cuda.h"
#include "kernels/softmax/quantized.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {
namespace {

struct Problem {
  DType x = DType::u8, y = DType::u8;
  Views rows;  // all axes but the last; x, then y
  int64_t count = 1, width = 1, alignment = 256;
  bool x_zero = false, y_zero = false;
};

Result<Problem> problem_of(const BoundNode& b) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  Problem p{.x = x.type, .y = y.type, .x_zero = b.has(2), .y_zero = b.has(4)};
  for (const DType t : {x.type, y.type})
    if (t != DType::u8 && t != DType::i8) return refuse(Reason::wrong_type, "elements of {}", name(t));
  for (const size_t i : {1, 2, 3, 4})
    if (b.has(i) && elements(b.inputs[i].shape) != 1)
      return refuse(Reason::wrong_shape, "{} scales or zero points", elements(b.inputs[i].shape));
  for (const size_t i : {1, 3})
    if (b.inputs[i].type != DType::f32) return refuse(Reason::wrong_type, "a scale of {}", name(b.inputs[i].type));
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (const int64_t axis = b.node->get_int("axis", -1); rank == 0 || (axis != -1 && axis != rank - 1))
    return refuse(Reason::wrong_axis, "a softmax over axis {} of {}", axis, rank);
  Shape rows = x.shape, from = memory_strides(x), to = memory_strides(y);
  p.width = rows.back();
  if (p.width > 1 && (from.back() != 1 || to.back() != 1))
    return refuse(Reason::wrong_layout, "the elements of a row do not lie side by side");
  rows.pop_back(), from.pop_back(), to.pop_back();
  p.count = elements(rows);
  p.rows = merged(rows, {from, to}, 0);
  p.alignment = std::min(x.alignment, y.alignment);
  if (!WalkArgument::fits(p.rows, 1) || p.width >= int64_t{1} << 31)
    return refuse(Reason::too_large, "{} rows of {} elements; it counts to 2^31 of each", p.count, p.width);
  return p;
}

struct Form {
  int64_t vec, team, rows;
};

std::unique_ptr<Kernel> kernel_of(const Problem& p, const Form& f, const Gpu& gpu) {
  LaunchPlan plan("softmax:bytes", "#include \"softmax/quantized.cuh\"\n");
  if (p.count == 0 || p.width == 0) return launched(std::move(plan), gpu, {0});
  const WalkArgument rows(p.rows, 1);
  const std::string arguments =
      fmt::format("QuantizedSoftmaxArgs<{}, {}, {}>", expr::cuda_type(p.x), expr::cuda_type(p.y), p.rows.extents.size());
  const device::cuda::LaunchShape shape{.grid = {(p.count + f.rows - 1) / f.rows, 1, 1},
                                        .block = {static_cast<unsigned>(f.team * f.rows), 1, 1}};
  Launch& l = plan.launch({"softmax", std::to_string(f.team * f.rows), arguments,
                           fmt::format("softmax_quantized<{}, {}, {}>", f.vec, f.team, f.rows)},
                          shape);
  l.input(0).output(0).input(1);
  p.x_zero ? l.input(2) : l.value(uint64_t{0});
  l.input(3);
  p.y_zero ? l.input(4) : l.value(uint64_t{0});
  l.value(rows).value(static_cast<uint32_t>(p.width));
  return launched(std::move(plan), gpu, {0});
}

}  // namespace

void offer_softmax_bytes_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto p = problem_of(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  const auto step = [&](int64_t vec) {
    int least = 1;
    for (Shape s : p->rows.strides) {
      s.push_back(1);
      least = std::min(least, access_step(s, 1, p->alignment, vec));
    }
    return least;
  };
  int64_t vec = 16;
  while (vec > 1 && (p->width % vec != 0 || step(vec) != 1)) vec /= 2;
  const double base = gpu_estimate_us(*machine.gpu, 2.0 * static_cast<double>(p->count * p->width));
  for (const int64_t each : {1, 4, 16}) {  // vectors of a thread
    const int64_t chunks = std::max<int64_t>(1, p->width / vec);
    const int64_t team =
        std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((chunks + each - 1) / each))), 1, 1024);
    const Form f{vec, team, std::max<int64_t>(1, 256 / team)};
    offer.candidates.push_back({"cuda", fmt::format("bytes v{} t{} r{}", f.vec, f.team, f.rows),
                                base * (each == 4 ? 1 : 1.05) * (vec >= 4 ? 1 : 1.5),
                                [p = *p, f, gpu = machine.gpu] { return kernel_of(p, f, *gpu); }});
  }
}

}  // namespace smelt::ops
