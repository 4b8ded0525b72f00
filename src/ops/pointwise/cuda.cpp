// Pointwise programs on a GPU: one generated kernel, specialised on the program, the rank and the width of its accesses; extents
// and strides are arguments.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/gpu.h"
#include "ops/pointwise/problem.h"
#include "ops/pointwise/walk.h"

namespace smelt::ops {
namespace {

using device::cuda::Source;

constexpr unsigned threads = 256;
constexpr double launch_us = 2;      // a kernel in a CUDA graph, at least
constexpr double bytes_per_us = 3e6; // of a recent data centre's GPU: only ranks candidates that are not measured

struct Plan {
  PointwiseProblem problem;
  Views views;
  int64_t width = 1;                 // elements of the innermost axis that a thread does
  std::vector<int> steps;            // of each view: 1 contiguous and aligned for the width, 0 repeated, -1 neither
};

int64_t size_of(const expr::Program& p, size_t view) {
  const auto inputs = static_cast<size_t>(p.input_count());
  return bytes(view < inputs ? p.type(static_cast<expr::Ref>(view)) : p.type(p.outputs()[view - inputs]), 1);
}

std::string source_of(const Plan& plan) {
  const expr::Program& p = plan.problem.program;
  const size_t views = plan.steps.size(), inputs = plan.problem.present.size(), rank = plan.views.extents.size();
  const auto type = [&](size_t v) {
    return expr::cuda_type(v < inputs ? p.type(static_cast<expr::Ref>(v)) : p.type(p.outputs()[v - inputs]));
  };
  std::string code = "#include \"common/expr.cuh\"\n#include \"pointwise/walk.cuh\"\n\n" + expr::to_cuda(p, "Program");
  code += fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}) pointwise(", threads);
  for (size_t v = 0; v < views; ++v) code += fmt::format("{}{}* view{}, ", v < inputs ? "const " : "", type(v), v);
  code += fmt::format("const Walk<{}, {}> walk) {{\n", rank, views);
  code += fmt::format("  const u32 chunk = blockIdx.x * {}u + threadIdx.x;\n  if (chunk >= walk.chunks) return;\n", threads);
  code += fmt::format("  i64 at[{}];\n  const u32 count = walk.locate<{}>(chunk, at);\n", views, plan.width);
  for (size_t v = 0; v < views; ++v) code += fmt::format("  Vector<{}, {}> x{};\n", type(v), plan.width, v);
  for (size_t v = 0; v < inputs; ++v)
    code += fmt::format("  load<{}>(x{}, view{}, at[{}], walk.strides[{}][{}], count);\n", plan.steps[v], v, v, v, v, rank - 1);
  std::string arguments;
  for (size_t v = 0; v < views; ++v) arguments += fmt::format("{}x{}.at[i]", v ? ", " : "", v);
  code += fmt::format("#pragma unroll\n  for (int i = 0; i < {}; ++i) Program::apply({});\n", plan.width, arguments);
  for (size_t v = inputs; v < views; ++v)
    code += fmt::format("  store<{}>(view{}, at[{}], walk.strides[{}][{}], count, x{});\n", plan.steps[v], v, v, v, rank - 1, v);
  return code + "}\n";
}

class PointwiseCuda final : public CompiledKernel {
 public:
  PointwiseCuda(const Plan& plan, const Gpu& gpu, const std::string& name)
      : CompiledKernel(gpu, {name, source_of(plan), {}}, "pointwise"),
        present_(plan.problem.present),
        single_(plan.problem.program.outputs().size() == 1),
        walk_(plan.views, plan.width) {}

  bool in_place(size_t) const override { return single_; }

  void run(const Buffers& b) override {
    if (walk_.chunks() == 0) return;
    std::array<const void*, 64> pointers;
    std::array<void*, 65> parameters;
    size_t n = 0;
    for (const size_t i : present_) pointers[n++] = b.inputs[i];
    for (void* out : b.outputs) pointers[n++] = out;
    for (size_t i = 0; i < n; ++i) parameters[i] = &pointers[i];
    parameters[n] = const_cast<void*>(walk_.data());
    const auto blocks = static_cast<unsigned>((walk_.chunks() + threads - 1) / threads);
    launch(b, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, parameters.data());
  }

 private:
  std::vector<size_t> present_;
  bool single_;
  WalkArgument walk_;
};

}  // namespace

void offer_pointwise_cuda(const PointwiseProblem& p, const Gpu& gpu, Offer& offer) {
  if (p.strides.size() > 60)
    return offer.rejected.push_back({"cuda", fmt::format("{} operands, a kernel takes 60", p.strides.size())});
  Plan plan{p, merged(p.shape, p.strides, p.present.size())};
  int64_t smallest = 16, moved = 0;
  for (size_t v = 0; v < p.strides.size(); ++v) {
    if (plan.views.strides[v].back() == 1) smallest = std::min(smallest, size_of(p.program, v));
    moved += elements(p.shape) * size_of(p.program, v);
  }
  const int64_t row = plan.views.extents.back();
  const double estimate = launch_us + static_cast<double>(moved) / bytes_per_us;
  // Wide accesses first: 16 bytes of the smallest type, then half of that, down to one element.
  for (int64_t width = std::min<int64_t>(8, 16 / smallest); width >= 1; width /= 2) {
    if (width > 1 && width > row) continue;
    plan.width = width;
    plan.steps.clear();
    for (size_t v = 0; v < p.strides.size(); ++v)
      plan.steps.push_back(access_step(plan.views.strides[v], size_of(p.program, v), p.alignments[v], width));
    const bool scattered = std::ranges::find(plan.steps, -1) != plan.steps.end();
    if (!WalkArgument::fits(plan.views, width)) continue;
    const auto make = [plan, &gpu, name = fmt::format("pointwise:w{}", width)] {
      return std::make_unique<PointwiseCuda>(plan, gpu, name);
    };
    // Where an operand is read element by element anyhow, narrow accesses are the better coalesced ones.
    const double worse = scattered && width > 1 ? 1.5 : 1 + 0.01 / static_cast<double>(width);
    offer.candidates.push_back({"cuda", fmt::format("w{}", width), estimate * worse, make});
  }
  if (offer.candidates.empty())
    offer.rejected.push_back({"cuda", fmt::format("{} elements, more than 2^31 accesses", elements(p.shape))});
}

}  // namespace smelt::ops
