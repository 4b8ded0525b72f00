#include "ops/reduce/cuda_lines.h"

#include <fmt/core.h>

#include "expr/cuda.h"
#include "kernels/reduce/lines.h"
#include "ops/core/strides.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"

namespace smelt::ops {

void offer_lines_cuda(const BoundNode& b, LineKernel kernel, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  const DType type = x.type;
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(type));
  if (kernel.count >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} lines; it counts to 2^31", kernel.count);
  const double estimate =
      gpu_estimate_us(*machine.gpu, 3.0 * static_cast<double>(storage_bytes(x))) + 0.01 * static_cast<double>(kernel.view.extent);
  offer.candidates.push_back(
      {"cuda", "lines", estimate, [type, kernel = std::move(kernel), gpu = machine.gpu] {
         const AxisView& v = kernel.view;
         LaunchPlan plan("lines", "#include \"reduce/lines.cuh\"\n");
         if (kernel.count > 0 && v.extent > 0) {
           const kernels::LineArgs<void> a{.extent = v.extent, .inner = v.inner, .count = static_cast<uint32_t>(kernel.count)};
           const KernelEntry lines{"lines", "256", fmt::format("{}<{}>", kernel.arguments, expr::cuda_type(type)), kernel.body};
           Launch& l = plan.launch(lines, blocks_of(kernel.count, 256));
           l.args(a, {{a.x, {BufferRef::input, 0}}, {a.y, {BufferRef::output, 0}}});
           if (kernel.others) kernel.others(l);
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
