// Hardmax, LpNormalization and LRN on a GPU, a thread a line (src/kernels/reduce/lines.cuh).
#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/family.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"

namespace smelt::ops {
namespace {

struct Lines {  // src/kernels/reduce/lines.cuh
  uint32_t count;
  int64_t extent, inner;
};

}  // namespace

bool gpu_lines_handles(const Node& n) { return n.is("Hardmax") || n.is("LpNormalization") || n.is("LRN"); }

void gpu_lines_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const Node& n = *b.node;
  const DType type = x.type;
  if (x.layout != Layout::plain || !is_dense(x) || !is_dense(y))
    return offer.rejected.push_back({"cuda", "tensors that are not dense and row-major"});
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16)
    return offer.rejected.push_back({"cuda", fmt::format("elements of {}", name(type))});
  const bool response = n.op == "LRN";
  const AxisView v =
      around_axis(x.shape, response ? 1 : normalize_axis(n.get_int("axis", -1), static_cast<int64_t>(x.shape.size())));
  const int64_t count = response ? elements(x.shape) : v.outer * v.inner;
  if (count >= int64_t{1} << 31) return offer.rejected.push_back({"cuda", fmt::format("{} lines", count)});
  const std::string call = n.op == "Hardmax" ? "hard_max(x, y, l)"
                           : response        ? "respond(x, y, l, size, alpha, beta, bias)"
                                             : fmt::format("divide_by_norm<{}>(x, y, l)", n.get_int("p", 2));
  const std::string source = fmt::format(
      "#include \"reduce/lines.cuh\"\n\nextern \"C\" __global__ void __launch_bounds__(256) lines(const {0}* x, {0}* y, const "
      "Lines l{1}) "
      "{{\n  {2};\n}}\n",
      expr::cuda_type(type), response ? ", i64 size, float alpha, float beta, float bias" : "", call);
  const double estimate =
      gpu_estimate_us(*machine.gpu, 3.0 * static_cast<double>(storage_bytes(x))) + 0.01 * static_cast<double>(v.extent);
  const int64_t size = n.get_int("size", 1);
  const float alpha = n.get_float("alpha", 1e-4f), beta = n.get_float("beta", 0.75f), bias = n.get_float("bias", 1.0f);
  offer.candidates.push_back({"cuda", "lines", estimate, [=, gpu = machine.gpu] {
                                LaunchPlan plan("lines", source);
                                if (count > 0 && v.extent > 0) {
                                  Launch& l = plan.launch("lines", blocks_of(count, 256));
                                  l.input(0).output(0).value(Lines{static_cast<uint32_t>(count), v.extent, v.inner});
                                  if (response) l.value(size).value(alpha).value(beta).value(bias);
                                }
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops
