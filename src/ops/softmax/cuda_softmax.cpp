// Softmax and LogSoftmax on a GPU (src/kernels/softmax/softmax.cuh), along any axis.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_held = 32;  // elements of a row that a thread holds
constexpr double launch_us = 2;

struct Problem {
  DType type = DType::f32;
  bool logarithm = false;
  Views rows;  // all axes but those normalised together; x, then y
  int64_t count = 1, width = 1;
  int64_t from = 1, to = 1;  // elements from one of a row to the next in x and y
  int64_t alignment = 256;   // of both
};

Result<Problem> problem_of(const BoundNode& b) {
  Problem p;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  p.type = x.type;
  p.logarithm = b.node->op == "LogSoftmax";
  if (p.type != DType::f32 && p.type != DType::f16 && p.type != DType::bf16 && p.type != DType::f64)
    return refuse(Reason::wrong_type, "elements of {}", name(p.type));
  const Shape own[] = {memory_strides(x), memory_strides(y)};
  const std::vector<size_t> axes = softmax_axes(*b.node, static_cast<int64_t>(x.shape.size()));
  Shape rows, row;
  std::vector<Shape> row_strides(2), in_row(2);
  for (size_t a = 0; a < x.shape.size(); ++a) {
    const bool inside = std::ranges::find(axes, a) != axes.end();
    (inside ? row : rows).push_back(x.shape[a]);
    (inside ? p.width : p.count) *= x.shape[a];
    for (size_t v = 0; v < 2; ++v) (inside ? in_row : row_strides)[v].push_back(own[v][a]);
  }
  const Views inner = merged(row, in_row, 0);
  if (inner.extents.size() > 1) return refuse(Reason::wrong_layout, "the elements of a row are not equally far apart");
  if (p.width > 1) p.from = inner.strides[0][0], p.to = inner.strides[1][0];
  p.rows = merged(rows, row_strides, 0);
  p.alignment = std::min(x.alignment, y.alignment);
  if (!WalkArgument::fits(p.rows, 1) || p.width >= int64_t{1} << 31)
    return refuse(Reason::too_large, "{} rows of {} elements; it counts to 2^31 of each", p.count, p.width);
  return p;
}

/// How both are accessed by `vec` elements along the innermost axis of `columns`, or along a row.
int step_of(const Problem& p, bool columns, int64_t vec) {
  int step = 1;
  for (size_t v = 0; v < 2; ++v) {
    Shape s = p.rows.strides[v];
    const int64_t along = v ? p.to : p.from;
    if (columns)
      s.insert(s.begin(), along);
    else
      s.push_back(along);
    step = std::min(step, access_step(s, element_bytes(p.type), p.alignment, vec));
  }
  return step > 0 ? 1 : -1;
}

struct Form {
  std::string config, body;  // body: of softmax.cuh
  device::cuda::LaunchShape shape;
  int64_t parts = 1, vec = 1;
  bool columns = false;
  double estimate = 0;
};

std::unique_ptr<Kernel> kernel_of(const Problem& p, const Form& f, const Gpu& gpu) {
  LaunchPlan plan("softmax:" + f.config, "#include \"softmax/softmax.cuh\"\n");
  if (p.count == 0 || p.width == 0) return launched(std::move(plan), gpu, {0});
  const std::string arguments = fmt::format("SoftmaxArgs<{}, LogSumExp<{}>, {}>", expr::cuda_type(p.type),
                                            p.type == DType::f64 ? "double" : "float", p.rows.extents.size());
  const WalkArgument rows(p.rows, f.columns ? f.vec : 1);
  const BufferRef parts = f.parts > 1 ? plan.reserve(p.count * f.parts * (p.type == DType::f64 ? 16 : 8)) : BufferRef{};
  const auto launch = [&](const std::string& entry, const std::string& body) {
    Launch& l = plan.launch({entry, std::to_string(f.shape.block[0]), arguments, body}, f.shape).input(0).output(0);
    f.parts > 1 ? l.at(parts) : l.value(uint64_t{0});
    l.value(p.from).value(p.to).value(rows).value(static_cast<uint32_t>(p.width));
  };
  if (f.parts > 1) launch("states", fmt::format("softmax_parts<{}, 512>", f.vec));
  launch("softmax", f.body);
  return launched(std::move(plan), gpu, {0});
}

int64_t power_above(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, n)))); }

std::vector<Form> forms_of(const Problem& p, const Gpu& gpu) {
  std::vector<Form> list;
  const int64_t size = element_bytes(p.type), multiprocessors = std::max(1, gpu.info.multiprocessors);
  const double base = gpu_estimate_us(gpu, 2.0 * static_cast<double>(p.count * p.width * size));
  if (p.from == 1 && p.to == 1) {
    int64_t vec = 16 / size;
    while (vec > 1 && (p.width % vec != 0 || step_of(p, false, vec) != 1)) vec /= 2;
    const int64_t chunks = std::max<int64_t>(1, (p.width + vec - 1) / vec);
    for (int64_t held = 1; held * vec <= most_held && held <= 8; held *= 2) {
      const int64_t team = power_above((chunks + held - 1) / held);
      if (team > 1024) continue;
      if (held > 1 && team * held >= 2 * chunks && team == 1) break;
      const int64_t rows =
          std::clamp<int64_t>(256 / team, 1, std::max<int64_t>(32 / team, power_above(p.count / multiprocessors)));
      Form f;
      f.vec = vec;
      f.config = fmt::format("held v{} t{} r{} h{}", vec, team, rows, held);
      f.body = fmt::format("softmax_held<{}, {}, {}, {}, {}>", p.logarithm, vec, team, rows, held);
      f.shape = {.grid = {(p.count + rows - 1) / rows, 1, 1}, .block = {static_cast<unsigned>(team * rows), 1, 1}};
      f.estimate = base *
                   (held == 4   ? 1
                    : held == 2 ? 1.02
                                : 1.05) *
                   std::max(1.0, static_cast<double>(team * held) / (1.5 * static_cast<double>(chunks)));
      list.push_back(f);
    }
    Form f;
    f.vec = vec;
    f.config = fmt::format("looped v{}", vec);
    f.body = fmt::format("softmax_looped<{}, {}, 512>", p.logarithm, vec);
    f.shape = {.grid = {p.count, 1, 1}, .block = {512, 1, 1}};
    f.estimate = base * 1.5 * (p.width < 512 ? 4 : 1) *
                 std::max(1.0, static_cast<double>(multiprocessors) / static_cast<double>(2 * std::max<int64_t>(1, p.count)));
    list.push_back(f);
    const int64_t parts = std::min<int64_t>(2 * multiprocessors / std::max<int64_t>(1, p.count), chunks / 2048);
    if (parts > 1) {
      f.parts = parts;
      f.config = fmt::format("parts v{} p{}", vec, parts);
      f.body = fmt::format("softmax_from_parts<{}, {}, 512>", p.logarithm, vec);
      f.shape.grid = {p.count, parts};
      f.estimate = base * 1.5 + launch_us;
      list.push_back(f);
    }
    return list;
  }
  for (const int64_t vec : {int64_t{2}, int64_t{1}}) {  // more columns a thread spill registers
    const int step = step_of(p, true, vec);
    if (vec > 1 && (step != 1 || vec > p.rows.extents.back())) continue;
    Form f;
    f.columns = true;
    f.vec = vec;
    const int64_t chunks = (p.count + vec - 1) / vec, side = std::min<int64_t>(32, power_above(chunks));
    const int64_t team = std::min({power_above(p.width), 256 / side, 32768 / (side * vec * 2 * std::max<int64_t>(size, 4))});
    f.config = fmt::format("columns v{} n{} t{}", vec, side, team);
    f.body = fmt::format("softmax_columns<{}, {}, {}, {}, {}>", p.logarithm, vec, step, side, team);
    f.shape = {.grid = {(WalkArgument(p.rows, vec).chunks() + side - 1) / side, 1, 1},
               .block = {static_cast<unsigned>(side * team), 1, 1}};
    f.estimate =
        base * 1.5 * std::max(1.0, static_cast<double>(multiprocessors) / static_cast<double>(std::max(1u, f.shape.grid[0])));
    list.push_back(f);
  }
  return list;
}

}  // namespace

void offer_softmax_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto p = problem_of(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  for (const Form& f : forms_of(*p, *machine.gpu))
    offer.candidates.push_back({"cuda", f.config, f.estimate, [p = *p, f, gpu = machine.gpu] { return kernel_of(p, f, *gpu); }});
}

}  // namespace smelt::ops
