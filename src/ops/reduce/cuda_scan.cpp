// CumSum and CumProd on a GPU (src/kernels/scan/scan.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/scan/scan.h"
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
  const std::string constants =
      fmt::format("{0}, {1}<{0}>, {2}, {3}", wide, b.node->op == "CumSum" ? "RunningSum" : "RunningProduct",
                  b.node->get_int("exclusive", 0) != 0, b.node->get_int("reverse", 0) != 0);
  struct Form {
    std::string config, body;
    int64_t lanes;  // threads side by side that have lines of their own
    unsigned block;
    double us_of_place;  // of the extent
  };
  std::vector<Form> forms;
  if (v.inner == 1) {
    forms.push_back({"rows", fmt::format("scan_rows<{}, 256, 4>", constants), 1, 256, 0.003});
  } else {
    constexpr int64_t threads = 512, short_extent = 32;
    int64_t lanes = 32;
    while (lanes > 4 && lanes / 2 >= lines) lanes /= 2;
    const int64_t parts = threads / lanes;
    if (v.extent > short_extent)
      forms.push_back({fmt::format("parts l{}", lanes), fmt::format("scan_parts<{}, {}, {}>", constants, lanes, parts), lanes,
                       threads, 0.4 / static_cast<double>(parts)});
    forms.push_back({"columns", fmt::format("scan_columns<{}>", constants), 256, 256, 0.2});
  }
  for (const Form& f : forms) {
    const KernelEntry scan{"scan", std::to_string(f.block), fmt::format("ScanArgs<{}>", type), f.body};
    const double estimate = gpu_estimate_us(*machine.gpu, 2.0 * static_cast<double>(storage_bytes(x))) +
                            static_cast<double>(v.extent) * f.us_of_place;
    offer.candidates.push_back({"cuda", f.config, estimate, [scan, lines, v, f, gpu = machine.gpu] {
                                  LaunchPlan plan("scan", "#include \"scan/scan.cuh\"\n");
                                  if (lines * v.extent > 0) {
                                    const kernels::ScanArgs<void> a{.lines = static_cast<uint32_t>(lines),
                                                                    .extent = static_cast<uint32_t>(v.extent),
                                                                    .inner = Divider(static_cast<uint32_t>(v.inner))};
                                    plan.launch(scan, {.grid = {(lines + f.lanes - 1) / f.lanes, 1, 1}, .block = {f.block, 1, 1}})
                                        .args(a, {{a.x, {BufferRef::input, 0}}, {a.y, {BufferRef::output, 0}}});
                                  }
                                  return launched(std::move(plan), *gpu, {0});
                                }});
  }
}

}  // namespace smelt::ops
