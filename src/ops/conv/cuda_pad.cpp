#include "ops/conv/cuda_pad.h"

#include <fmt/format.h>

#include "expr/cuda.h"
#include "kernels/conv/pad.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

class PadKernel final : public CompiledKernel {
 public:
  PadKernel(const GpuRequest& r, const ImplicitProblem& p) : CompiledKernel(*r.gpu, {"conv:pad", source(p), {}}, "pad") {
    const BoundTensor& x = r.node.inputs[r.at.x];
    args_.pixels = static_cast<uint32_t>(p.n * p.in_height * p.in_width);
    args_.width = Divider(static_cast<uint32_t>(p.in_width));
    args_.height = Divider(static_cast<uint32_t>(p.in_height));
    args_.fill = r.zero();
    copy(args_.in, Shape(x.shape.begin() + 1, x.shape.end()));
    copy(args_.pad, r.problem.pad_begin);
    copy(args_.from, memory_strides(x));
    x_ = r.at.x;
  }

  void run(const Buffers& b) override {
    args_.x = b.inputs[x_];
    args_.y = b.workspace;
    ops::Arguments arguments;
    arguments.value(args_);
    launch(b, {.grid = {(int64_t{args_.pixels} + 255) / 256}, .block = {256, 1, 1}}, arguments);
  }

 private:
  static std::string source(const ImplicitProblem& p) {
    const KernelEntry pad{"pad", "256", fmt::format("PadArgs<{}>", expr::cuda_type(p.type)),
                          fmt::format("pad_image<{}>", ImplicitProblem::padded_channels)};
    return "#include \"conv/pad.cuh\"\n" + entry_source(pad, sizeof(kernels::PadArgs<void>));
  }
  kernels::PadArgs<void> args_{};
  size_t x_;
};

}  // namespace

std::unique_ptr<Kernel> padding_kernel(const GpuRequest& r, const ImplicitProblem& p) {
  return std::make_unique<PadKernel>(r, p);
}

}  // namespace smelt::ops::conv
