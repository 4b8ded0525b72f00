// Pointwise programs on a GPU (src/kernels/pointwise/pointwise.cuh): one kernel for each program, rank and width of its accesses;
// extents and strides are arguments.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/pointwise/pointwise.h"
#include "ops/core/any_booleans.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;

int64_t size_of(const expr::Program& p, size_t view) {
  const auto inputs = static_cast<size_t>(p.input_count());
  return bytes(view < inputs ? p.type(static_cast<expr::Ref>(view)) : p.type(p.outputs()[view - inputs]), 1);
}

/// A problem over as few axes as it can be, as threads that do `width` elements of the innermost one see it.
struct Specialised {
  const PointwiseProblem& problem;
  Views views;
  int64_t width;
  std::vector<int> steps;  // of each view: 1 contiguous and aligned for the width, 0 repeated, -1 neither

  Specialised(const PointwiseProblem& p, int64_t w) : problem(p), views(merged(p.shape, p.strides, p.present.size())), width(w) {
    for (size_t v = 0; v < p.strides.size(); ++v)
      steps.push_back(access_step(views.strides[v], size_of(p.program, v), p.alignments[v], width));
  }
};

/// The kernel of src/kernels/pointwise/pointwise.cuh.
std::string source_of(const Specialised& s) {
  const expr::Program& p = s.problem.program;
  const size_t tensors = s.steps.size(), inputs = s.problem.present.size();
  std::vector<std::string> inputs_of, outputs_of;  // views
  for (size_t t = 0; t < tensors; ++t) {
    const DType type = t < inputs ? p.type(static_cast<expr::Ref>(t)) : p.type(p.outputs()[t - inputs]);
    // A bool is loaded as a byte, of which all but 0 are true: as a bool, the byte's last bit would be.
    const DType in_memory = t < inputs && type == DType::boolean ? DType::u8 : type;
    (t < inputs ? inputs_of : outputs_of).push_back(fmt::format("View<{}, {}>", expr::cuda_type(in_memory), s.steps[t]));
  }
  const std::string config = config_source("PointwiseConfig", {{"threads", threads}, {"width", s.width}});
  const size_t rank = s.views.extents.size();
  const KernelEntry entry{"pointwise", std::to_string(threads), fmt::format("PointwiseArgs<{}, {}>", rank, tensors),
                          "Kernel::run"};
  return fmt::format(
             "#include \"pointwise/pointwise.cuh\"\n\n{}\n"
             "struct Kernel : Pointwise<{}, Program,\n                          Types<{}>, Types<{}>> {{}};\n",
             expr::to_cuda(p, "Program"), config, fmt::join(inputs_of, ", "), fmt::join(outputs_of, ", ")) +
         entry_source(entry, kernels::pointwise_bytes(static_cast<int>(rank), static_cast<int>(tensors)));
}

class PointwiseCuda final : public CompiledKernel, public TakesAnyBooleans {
 public:
  PointwiseCuda(const Specialised& s, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("pointwise:w{}", s.width), source_of(s), options_of(s.problem)}, "pointwise"),
        present_(s.problem.present),
        single_(s.problem.program.outputs().size() == 1),
        walk_(s.views, s.width) {}

  bool in_place(size_t) const override { return single_; }
  bool takes_any_boolean(size_t i) const override { return std::ranges::find(present_, i) != present_.end(); }

  void run(const Buffers& b) override {
    if (walk_.chunks() == 0) return;
    Arguments arguments;
    for (const size_t i : present_) arguments.tensor(b.inputs[i]);
    for (const void* out : b.outputs) arguments.tensor(out);
    arguments.bytes(walk_.data(), walk_.size());
    launch(b, {.grid = {(walk_.chunks() + threads - 1) / threads}, .block = {threads, 1, 1}}, arguments);
  }

 private:
  static std::vector<std::string> options_of(const PointwiseProblem& p) {
    return p.fused_multiply_add ? std::vector<std::string>{} : std::vector<std::string>{"--fmad=false"};
  }
  std::vector<size_t> present_;
  bool single_;
  WalkArgument walk_;
};

}  // namespace

std::unique_ptr<Kernel> pointwise_cuda(const PointwiseProblem& p, int64_t width, const Gpu& gpu) {
  return std::make_unique<PointwiseCuda>(Specialised(p, width), gpu);
}

void offer_pointwise_cuda(const PointwiseProblem& p, const Gpu& gpu, Offer& offer) {
  if (p.strides.size() > Arguments::most_tensors)
    return offer.refuse("cuda", Reason::too_large, "{} operands, a kernel takes {}", p.strides.size(), Arguments::most_tensors);
  const Views views = merged(p.shape, p.strides, p.present.size());
  int64_t smallest = 16, moved = 0;
  for (size_t v = 0; v < p.strides.size(); ++v) {
    if (views.strides[v].back() == 1) smallest = std::min(smallest, size_of(p.program, v));
    moved += elements(p.shape) * size_of(p.program, v);
  }
  const int64_t row = views.extents.back();
  const double estimate = gpu_estimate_us(gpu, static_cast<double>(moved));
  // Wide accesses first: 16 bytes of the smallest type, then half of that, down to one element.
  for (int64_t width = std::min<int64_t>(8, 16 / smallest); width >= 1; width /= 2) {
    if ((width > 1 && width > row) || !WalkArgument::fits(views, width)) continue;
    const Specialised s(p, width);
    const bool scattered = std::ranges::find(s.steps, -1) != s.steps.end();
    // Where an operand is read element by element anyhow, narrow accesses are the better coalesced ones.
    const double worse = scattered && width > 1 ? 1.5 : 1 + 0.01 / static_cast<double>(width);
    offer.candidates.push_back(
        {"cuda", fmt::format("w{}", width), estimate * worse, [p, width, &gpu] { return pointwise_cuda(p, width, gpu); }});
  }
  if (offer.candidates.empty())
    offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31 accesses", elements(p.shape));
}

}  // namespace smelt::ops
