// Normalisations on a GPU: a row in the registers of the threads that share it, what follows it as its epilogue
// (src/kernels/norm/norm.cuh). Specialised on the row's width, the types and the program; the number of rows is an argument.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cuda/gpu.h"
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
  Shape strides;     // along every axis of x
  int64_t step = 1;  // elements from one to the next within a row
};

/// What happens to a row in the L2 cache. Streamed: it is given up first, and so is what is written. Twice: it is read for the
/// sums and again for what is written, by when the cache is to have it still, and held in no register between.
enum class Traffic { plain, streamed, twice };

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

std::optional<NormCuda> problem_of(const BoundNode& b, std::string& reason) {
  NormCuda p{NormParts(b)};
  std::vector<size_t> operands;
  p.program = *norm_program(b, p.parts, true, operands);
  const Shape& shape = b.inputs[0].shape;
  const auto add = [&](size_t role, bool input, size_t index) {
    if (index == none) return;
    const BoundTensor& t = input ? b.inputs[index] : b.outputs[index];
    p.views.push_back({role, input, index, t.type, t.alignment, broadcast_strides(t, shape.size())});
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
    if (!step) return reason = fmt::format("an operand's elements along a row are not equally far apart"), std::nullopt;
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

std::string source_of(const NormCuda& p, const RowSplit& s) {
  std::string code = "#include \"norm/norm.cuh\"\n\n" + expr::to_cuda(p.program, "Program");
  const size_t count = p.views.size(), rank = p.outer.extents.size();
  code += fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}) norm_rows(", s.threads * s.rows);
  for (size_t v = 0; v < count; ++v)
    code += fmt::format("{}{}* view{}, ", p.views[v].input ? "const " : "", expr::cuda_type(p.views[v].type), v);
  code += fmt::format("const Walk<{}, {}> rows, float epsilon) {{\n", rank, count);
  code += fmt::format("  using Row = HeldRow<{}, {}, {}, {}, {}>;\n", p.width, s.vec, s.threads, s.rows, s.held);
  code += fmt::format("  const u32 number = blockIdx.x * {}u + threadIdx.x / {}u;\n", s.rows, s.threads);
  code += fmt::format("  const bool inside = number < rows.chunks;\n  i64 at[{}];\n  rows.locate<1>(inside ? number : 0, at);\n",
                      count);
  const auto view_of = [&](size_t role) {
    return static_cast<size_t>(std::ranges::find(p.views, role, &View::role) - p.views.begin());
  };
  const size_t residual = view_of(role_residual), sum = view_of(role_sum), y = view_of(role_y);
  const bool twice = s.traffic == Traffic::twice;
  const std::string_view written = s.traffic == Traffic::streamed ? "Keep::shortest" : "Keep::plain";
  const auto read_row = [&](std::string_view read, bool writes) {
    code += fmt::format("  row.read<{}>(view0 + at[0]);\n", read);
    writes = writes && sum < count;
    if (residual < count) {
      const std::string to = writes ? fmt::format("view{} + at[{}]", sum, sum)
                                    : fmt::format("static_cast<{}*>(nullptr)", expr::cuda_type(p.views[0].type));
      code += fmt::format("  row.add<{}, {}>(view{} + at[{}], {}, inside);\n", read, written, residual, residual, to);
    } else if (writes) {  // without a residual the sum is x
      code += fmt::format("  row.copy<{}>(view{} + at[{}], inside);\n", written, sum, sum);
    }
  };
  code += "  Row row;\n";
  read_row(twice ? "Keep::longest" : s.traffic == Traffic::streamed ? "Keep::shortest" : "Keep::plain", !twice);
  // Operands are on their way while the row is added up: on an H200 5% less time at 512 columns, 2% at 1024, 11% at 4099.
  // Not where their registers cost more: with four vectors a thread (1% at 5120) and in the largest blocks.
  const auto operands = std::ranges::count_if(p.views, [](const View& v) { return v.role >= role_operands; });
  const bool ahead = operands * s.held <= (s.vec == 1 ? 32 : 2) && s.threads * s.rows <= 512 && !twice;
  const auto operand = [&](size_t v, std::string_view to, std::string_view column) {
    return fmt::format("load<{}>({}, view{}, at[{}] + {} * {}ll, {}ll, {});\n", step_of(p, v, s.vec), to, v, v, column,
                       p.views[v].step, p.views[v].step, s.vec);
  };
  const std::string within = fmt::format("(Row::column(h) < {} ? Row::column(h) : 0)", p.width);
  for (size_t v = 0; v < count && ahead; ++v) {
    if (p.views[v].role < role_operands) continue;
    code += fmt::format("  Vector<{}, {}> x{}[{}];\n#pragma unroll\n  for (int h = 0; h < {}; ++h)\n    {}",
                        expr::cuda_type(p.views[v].type), s.vec, v, s.held, s.held, operand(v, fmt::format("x{}[h]", v), within));
  }
  code += fmt::format("  const Statistics s = row.statistics<{}>(epsilon);\n", p.parts.centre);
  if (twice) read_row("Keep::shortest", true);
  code += "  row.normalize(s);\n  if (!inside) return;\n";
  for (const auto& [role, value] : {std::pair(role_mean, "mean"), std::pair(role_inverse, "factor")})
    if (const size_t v = view_of(role); v < count)
      code += fmt::format("  if (Row::lane() == 0) view{}[at[{}]] = From<{}>::f32(s.{});\n", v, v,
                          expr::cuda_type(p.views[v].type), value);
  code += fmt::format("#pragma unroll\n  for (int h = 0; h < {}; ++h) {{\n    const int c = Row::column(h);\n", s.held);
  code += fmt::format("    if (c >= {}) break;\n", p.width);
  std::string arguments = "row.v[h][e]";
  for (size_t v = 0; v < count; ++v) {
    if (p.views[v].role < role_operands) continue;
    if (!ahead)
      code += fmt::format("    Vector<{}, {}> x{};\n    {}", expr::cuda_type(p.views[v].type), s.vec, v,
                          operand(v, fmt::format("x{}", v), "c"));
    arguments += fmt::format(", x{}{}.at[e]", v, ahead ? "[h]" : "");
  }
  code +=
      fmt::format("    Vector<{}, {}> out;\n#pragma unroll\n    for (int e = 0; e < {}; ++e) Program::apply({}, out.at[e]);\n",
                  expr::cuda_type(p.views[y].type), s.vec, s.vec, arguments);
  if (s.traffic == Traffic::plain)
    code += fmt::format("    store<{}>(view{}, at[{}] + c, 1, {}, out);\n", step_of(p, y, s.vec), y, y, s.vec);
  else
    code += fmt::format("    store_keeping<{}>(reinterpret_cast<decltype(out)*>(view{} + at[{}] + c), out);\n", written, y, y);
  return code + "  }\n}\n";
}

class NormCudaKernel final : public CompiledKernel {
 public:
  NormCudaKernel(const NormCuda& p, const RowSplit& s, const Gpu& gpu, const std::string& name)
      : CompiledKernel(gpu, {name, source_of(p, s), {}}, "norm_rows"),
        walk_(p.outer, 1),
        shape_(s),
        epsilon_(static_cast<float>(p.parts.epsilon)),
        empty_(p.width == 0) {
    for (const View& v : p.views) views_.emplace_back(v.input, v.index);
  }

  void run(const Buffers& b) override {
    if (walk_.chunks() == 0 || empty_) return;
    Arguments arguments;
    for (const auto& [input, index] : views_) arguments.tensor(input ? b.inputs[index] : b.outputs[index]);
    arguments.bytes(walk_.data()).value(epsilon_);
    const auto blocks = static_cast<unsigned>((walk_.chunks() + shape_.rows - 1) / shape_.rows);
    launch(b, {.grid = {blocks, 1, 1}, .block = {static_cast<unsigned>(shape_.threads * shape_.rows), 1, 1}}, arguments);
  }

 private:
  std::vector<std::pair<bool, size_t>> views_;
  WalkArgument walk_;
  RowSplit shape_;
  float epsilon_;
  bool empty_;
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
  std::string reason;
  const auto p = problem_of(b, reason);
  if (!p) return offer.rejected.push_back({"cuda", reason});
  if (p->views.size() > Arguments::most_tensors)
    return offer.rejected.push_back(
        {"cuda", fmt::format("{} tensors, a kernel takes {}", p->views.size(), Arguments::most_tensors)});
  if (!WalkArgument::fits(p->outer, 1)) return offer.rejected.push_back({"cuda", "more than 2^31 rows"});
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
    s.rows = std::clamp<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, rows / multiprocessors))), 1,
                                 std::max<int64_t>(1, 256 / s.threads));
    s.rows = std::max<int64_t>(s.rows, s.threads < 32 ? 32 / s.threads : 1);  // whole warps
    const double idle = static_cast<double>(s.threads * held) / static_cast<double>(vectors);
    // Four vectors a thread hide the latency of one; more cost warps.
    const double worse = held == 4 ? 1 : held == 2 ? 1.02 : 1.05;
    const double estimate = norm_estimate_us(gpu, moved * std::max(1.0, idle / 1.5) * worse, (rows + s.rows - 1) / s.rows);
    for (const Traffic traffic : {Traffic::plain, Traffic::streamed, Traffic::twice}) {
      if (traffic != Traffic::plain && !passes) continue;
      s.traffic = traffic;
      // On an H200 (docs/ladder): rows of 16 KiB gain 3% by the second reading, shorter ones lose; streaming gains 1 to 3%.
      const double gain = traffic == Traffic::streamed ? 0.98 : traffic == Traffic::twice ? (row_bytes < 16384 ? 1.03 : 0.97) : 1;
      const auto make = [p = *p, s, &gpu, name = fmt::format("norm:{}:{}", p->width, s.print())] {
        return std::make_unique<NormCudaKernel>(p, s, gpu, name);
      };
      offer.candidates.push_back({"cuda", s.print(), estimate * gain, make});
    }
  }
  if (offer.candidates.empty())
    offer.rejected.push_back(
        {"cuda", fmt::format("rows of {} elements by accesses of {}: registers hold {}", p->width, vec, 1024 * most_held)});
}

double norm_estimate_us(const Gpu& gpu, double moved, int64_t blocks) {
  constexpr double bytes_a_us = 100e3;  // that one multiprocessor loads
  const auto busy = static_cast<double>(std::min<int64_t>(blocks, std::max(1, gpu.info.multiprocessors)));
  return std::max(gpu_estimate_us(gpu, moved), gpu_estimate_us(gpu, 0) + moved / busy / bytes_a_us);
}

}  // namespace smelt::ops
