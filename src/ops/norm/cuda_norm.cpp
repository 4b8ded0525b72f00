// Normalisations on a GPU: a row in the registers of the threads that share it, what follows it as its epilogue
// (src/kernels/norm/norm.cuh). Specialised on the row's width, the types and the program; the number of rows is an argument.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "device/cuda/early_kernels.h"
#include "expr/cuda.h"
#include "kernels/norm/norm.h"
#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/planned.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"
#include "ops/norm/offer.h"
#include "ops/norm/problem.h"

namespace smelt::ops {
namespace {

constexpr size_t none = NormParts::none;
constexpr int64_t most_held = 64;  // floats of a row that a thread holds in registers

/// What a tensor is to the kernel; operands are numbered from there on.
enum Role : size_t { role_x, role_residual, role_sum, role_y, role_mean, role_inverse, role_operands };

/// A tensor that the kernel reads or writes, row by row.
struct View {
  size_t role;
  bool input;
  size_t index;  // among the node's inputs or outputs
  DType type;
  int64_t alignment;
  Shape strides;  // along every axis of x
  bool constant = false;
  int64_t step = 1;  // elements from one to the next within a row
};

using kernels::Traffic;

struct RowSplit {  // how threads share the work
  int64_t vec = 1, threads = 32, rows = 1, held = 1;
  Traffic traffic = Traffic::plain;

  /// "v8 t512 r1 h2 streamed".
  std::string print() const {
    constexpr std::string_view suffixes[] = {"", " streamed", " twice"};
    return fmt::format("v{} t{} r{} h{}{}", vec, threads, rows, held, suffixes[static_cast<size_t>(traffic)]);
  }
};

struct NormCuda {
  NormParts parts;
  expr::Program program;    // over the normalised row and `operands`
  std::vector<View> views;  // in the order of their roles
  Views outer;              // rows
  int64_t width = 0;
};

Result<NormCuda> problem_of(const BoundNode& b) {
  NormCuda p{NormParts(b)};
  std::vector<size_t> operands;
  p.program = *norm_program(b, p.parts, true, operands);
  const Shape& shape = b.inputs[0].shape;
  const auto add = [&](size_t role, bool input, size_t index) {
    if (index == none) return;
    const BoundTensor& t = input ? b.inputs[index] : b.outputs[index];
    p.views.push_back({role, input, index, t.type, t.alignment, broadcast_strides(t, shape.size()), t.constant.valid()});
  };
  add(role_x, true, 0);
  add(role_residual, true, p.parts.residual);
  add(role_sum, false, p.parts.sum);
  add(role_y, false, 0);
  add(role_mean, false, p.parts.mean);
  add(role_inverse, false, p.parts.inverse);
  for (size_t i = 0; i < operands.size(); ++i) add(role_operands + i, true, operands[i]);
  std::vector<Shape> all, outer;
  for (const View& v : p.views) {
    all.push_back(v.strides);
    outer.emplace_back(v.strides.begin(), v.strides.begin() + static_cast<std::ptrdiff_t>(p.parts.axis));
  }
  const RowViews rows(shape, p.parts.axis, all);
  p.width = rows.width();
  for (size_t v = 0; v < p.views.size(); ++v) {
    const auto step = rows.stride(v);
    if (!step) return refuse(Reason::wrong_layout, "an operand's elements along a row are not equally far apart");
    p.views[v].step = p.width == 1 ? 1 : *step;
  }
  p.outer = merged(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(p.parts.axis)), outer, 0);
  return p;
}

int64_t size_of(const View& v) { return bytes(v.type, 1); }

/// How the kernel accesses a view by vectors of `vec` elements along a row.
int step_of(const NormCuda& p, size_t v, int64_t vec) {
  Shape strides = p.outer.strides[v];
  strides.push_back(p.views[v].step);
  return access_step(strides, size_of(p.views[v]), p.views[v].alignment, vec);
}

bool is_operand(const View& v) { return v.role >= role_operands; }

/// Operands are on their way while the row is added up: on an H200 5% less time at 512 columns, 2% at 1024, 11% at 4099.
/// Not where their registers cost more: with four vectors a thread (1% at 5120) and in the largest blocks.
bool prefetches(const NormCuda& p, const RowSplit& s) {
  return std::ranges::count_if(p.views, is_operand) * s.held <= (s.vec == 1 ? 32 : 2) && s.threads * s.rows <= 512 &&
         s.traffic != Traffic::reread;
}
/// The same before the kernels before have ended: no kernel writes them.
bool ahead(const NormCuda& p, const RowSplit& s) {
  return prefetches(p, s) && std::ranges::any_of(p.views, is_operand) &&
         std::ranges::all_of(p.views, [](const View& v) { return !is_operand(v) || v.constant; });
}

/// The kernel of src/kernels/norm/norm.cuh for this problem and this split.
std::string source_of(const NormCuda& p, const RowSplit& s) {
  const auto number_of = [&](size_t role) {
    const auto v = std::ranges::find(p.views, role, &View::role) - p.views.begin();
    return v < static_cast<std::ptrdiff_t>(p.views.size()) ? v : -1;
  };
  const std::ptrdiff_t y = number_of(role_y);
  const auto operands = std::ranges::count_if(p.views, is_operand);
  constexpr std::string_view traffic[] = {"plain", "streamed", "reread"};
  std::vector<std::string_view> types;  // of the tensors up to the operands
  std::string views;                    // of the operands
  for (size_t v = 0; v < p.views.size(); ++v) {
    const View& view = p.views[v];
    const std::string_view type = expr::cuda_type(view.type);
    if (is_operand(view))
      views += fmt::format(", View<{}, {}, {}>", type, step_of(p, v, s.vec), view.step);
    else
      types.push_back(type);
  }
  const std::string kernel = fmt::format(
      "\nstruct Kernel : NormRows<NormConfig{{.residual = {}, .sum = {}, .y = {}, .mean = {}, .inverse = {}, .operands = {},\n"
      "                                    .width = {}, .vec = {}, .vectors = {}, .y_access = {}, .threads = {}, .rows = {},\n"
      "                                    .centred = {}, .prefetches = {}, .ahead = {}, .traffic = Traffic::{}}},\n"
      "                         Program, Types<{}>{}> {{}};\n",
      number_of(role_residual), number_of(role_sum), y, number_of(role_mean), number_of(role_inverse),
      static_cast<std::ptrdiff_t>(p.views.size()) - operands, p.width, s.vec, s.held, step_of(p, static_cast<size_t>(y), s.vec),
      s.threads, s.rows, p.parts.centre, prefetches(p, s), ahead(p, s), traffic[static_cast<size_t>(s.traffic)],
      fmt::join(types, ", "), views);
  const size_t rank = p.outer.extents.size(), tensors = p.views.size();
  const KernelEntry entry{"norm_rows", std::to_string(s.threads * s.rows), fmt::format("NormArgs<{}, {}>", rank, tensors),
                          "Kernel::run"};
  return fmt::format("{}#include \"norm/norm.cuh\"\n\n{}{}{}", waits_itself, expr::to_cuda(p.program, "Program"), kernel,
                     entry_source(entry, kernels::norm_bytes(static_cast<int>(rank), static_cast<int>(tensors))));
}

class NormCudaKernel final : public CompiledKernel {
 public:
  NormCudaKernel(const NormCuda& p, const RowSplit& s, const Gpu& gpu, const std::string& name)
      : CompiledKernel(gpu, {name, source_of(p, s), {}}, "norm_rows"),
        walk_(p.outer, 1),
        shape_(s),
        epsilon_(static_cast<float>(p.parts.epsilon)) {
    for (const View& v : p.views) views_.emplace_back(v.input, v.index);
    // Blocks that begin while others run lie where there is room: so many find some beside a product's.
    constexpr int64_t beside_others = 2;
    ahead_ = ahead(p, s) && blocks() <= beside_others * std::max(1, gpu.info.multiprocessors);
  }

  void run(const Buffers& b) override {
    Arguments arguments;
    for (const auto& [input, index] : views_) arguments.tensor(input ? b.inputs[index] : b.outputs[index]);
    arguments.bytes(walk_.data(), walk_.size()).value(epsilon_);
    const bool ahead = ahead_ && device::cuda::EarlyKernels::in_scope() && !PlannedLaunches::current();
    launch(b, {.grid = {blocks()}, .block = {static_cast<unsigned>(shape_.threads * shape_.rows), 1, 1}}, arguments);
    if (ahead) device::cuda::EarlyKernels::note_ahead(static_cast<device::cuda::abi::Stream>(b.stream));
  }

 private:
  int64_t blocks() const { return (walk_.chunks() + shape_.rows - 1) / shape_.rows; }

  std::vector<std::pair<bool, size_t>> views_;
  WalkArgument walk_;
  RowSplit shape_;
  float epsilon_;
  bool ahead_ = false;  // begins while the kernel before it runs
};

/// The widest access that every view of the row itself allows.
int64_t widest(const NormCuda& p) {
  for (int64_t vec = 16 / size_of(p.views[0]); vec > 1; vec /= 2) {
    bool fits = p.width % vec == 0;
    for (size_t v = 0; v < p.views.size(); ++v) fits = fits && (p.views[v].role >= role_mean || step_of(p, v, vec) == 1);
    if (fits) return vec;
  }
  return 1;
}

}  // namespace

void offer_whole_rows_cuda(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  const auto p = problem_of(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  if (p->views.size() > Arguments::most_tensors)
    return offer.refuse("cuda", Reason::too_large, "{} tensors, a kernel takes {}", p->views.size(), Arguments::most_tensors);
  if (!WalkArgument::fits(p->outer, 1))
    return offer.refuse("cuda", Reason::too_large, "{} rows; it counts to 2^31", elements(p->outer.extents));
  const int64_t vec = widest(*p), rows = WalkArgument(p->outer, 1).chunks();
  const int64_t vectors = std::max<int64_t>(1, (p->width + vec - 1) / vec);
  double moved = 0;
  for (const View& v : p->views) moved += static_cast<double>(rows * (v.step ? p->width : 1) * size_of(v));
  // What is larger than the cache passes through it: nothing that is written will be there for its reader.
  const int64_t row_bytes = p->width * size_of(p->views[0]);
  const bool passes = gpu.info.major >= 8 && vec * size_of(p->views[0]) == 16 && moved > static_cast<double>(gpu.info.l2_bytes);
  for (int64_t held = 1; held * vec <= most_held; held *= 2) {
    RowSplit s{.vec = vec, .held = held};
    s.threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((vectors + held - 1) / held)));
    if (s.threads > 1024) continue;
    if (s.threads < 4 && held > 1) break;  // a shorter one does the same
    s.threads = std::max<int64_t>(s.threads, 4);
    // Several short rows a block, while that leaves a block for every multiprocessor.
    const int64_t multiprocessors = gpu.info.multiprocessors;
    const auto wanted = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, rows / multiprocessors)));
    s.rows = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, std::max<int64_t>(1, 256 / s.threads));
    s.rows = std::max<int64_t>(s.rows, s.threads < 32 ? 32 / s.threads : 1);  // whole warps
    const double idle = static_cast<double>(s.threads * held) / static_cast<double>(vectors);
    // Four vectors a thread hide the latency of one; more cost warps.
    const double worse = held == 4 ? 1 : held == 2 ? 1.02 : 1.05;
    const double estimate = norm_estimate_us(gpu, moved * std::max(1.0, idle / 1.5) * worse, (rows + s.rows - 1) / s.rows);
    for (const Traffic traffic : {Traffic::plain, Traffic::streamed, Traffic::reread}) {
      if (traffic != Traffic::plain && !passes) continue;
      s.traffic = traffic;
      // On an H200 (docs/ladder): rows of 16 KiB gain 3% by the second reading, shorter ones lose; streaming gains 1 to 3%.
      const double gain = traffic == Traffic::streamed ? 0.98
                          : traffic == Traffic::reread ? (row_bytes < 16384 ? 1.03 : 0.97)
                                                       : 1;
      const auto make = [p = *p, s, &gpu, name = fmt::format("norm:{}:{}", p->width, s.print())] {
        return std::make_unique<NormCudaKernel>(p, s, gpu, name);
      };
      offer.candidates.push_back({"cuda", s.print(), estimate * gain, make});
    }
  }
  if (offer.candidates.empty())
    offer.refuse("cuda", Reason::too_large, "rows of {} elements by accesses of {}: registers hold {}", p->width, vec,
                 1024 * most_held);
}

double norm_estimate_us(const Gpu& gpu, double moved, int64_t blocks) {
  constexpr double bytes_a_us = 100e3;  // that one multiprocessor loads
  const auto busy = static_cast<double>(std::min<int64_t>(blocks, std::max(1, gpu.info.multiprocessors)));
  return std::max(gpu_estimate_us(gpu, moved), gpu_estimate_us(gpu, 0) + moved / busy / bytes_a_us);
}

}  // namespace smelt::ops
