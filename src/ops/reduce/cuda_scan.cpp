// CumSum and CumProd on a GPU (src/kernels/scan/scan.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {

void offer_scan_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  if (!b.inputs[1].constant.valid()) return offer.refuse("cuda", Reason::not_constant, "its axis is computed");
  const bool real = x.type == DType::f32 || x.type == DType::f64 || x.type == DType::f16 || x.type == DType::bf16;
  if (!real && (!is_integer(x.type) || bits(x.type) < 8))
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(x.type));
  const AxisView v =
      around_axis(x.shape, normalize_axis(b.inputs[1].constant.to_ints()[0], static_cast<int64_t>(x.shape.size())));
  const int64_t lines = v.outer * v.inner;
  if (lines * v.extent >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", lines * v.extent);
  const std::string type(expr::cuda_type(x.type)), wide = real ? "double" : is_signed(x.type) ? "i64" : "u64";
  const std::string arguments =
      fmt::format("{0}, {1}<{0}>, {2}, {3}", wide, b.node->op == "CumSum" ? "RunningSum" : "RunningProduct",
                  b.node->get_int("exclusive", 0) != 0, b.node->get_int("reverse", 0) != 0);
  constexpr unsigned block = 256;
  const bool rows = v.inner == 1;
  const std::string call = rows ? fmt::format("scan_rows<{}, {}, 4>(x, y, extent)", arguments, block)
                                : fmt::format("scan_columns<{}>(x, y, lines, extent, inner)", arguments);
  const std::string source =
      "#include \"scan/scan.cuh\"\n" +
      entry_of_text("scan", block, fmt::format("const {0}* x, {0}* y, u32 lines, u32 extent, Divider inner", type), call + ";");
  const double estimate = gpu_estimate_us(*machine.gpu, 2.0 * static_cast<double>(storage_bytes(x))) +
                          static_cast<double>(v.extent) * (rows ? 0.003 : 0.2);
  offer.candidates.push_back({"cuda", rows ? "rows" : "columns", estimate, [source, lines, v, rows, gpu = machine.gpu] {
                                LaunchPlan plan("scan", source);
                                if (lines * v.extent > 0) {
                                  plan.launch("scan", rows ? blocks_of(lines * block, block) : blocks_of(lines, block))
                                      .input(0)
                                      .output(0)
                                      .value(static_cast<uint32_t>(lines))
                                      .value(static_cast<uint32_t>(v.extent))
                                      .value(Divider(static_cast<uint32_t>(v.inner)));
                                }
                                return launched(std::move(plan), *gpu, {0});
                              }});
}

}  // namespace smelt::ops
