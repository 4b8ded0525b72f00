// AffineGrid on a GPU (src/kernels/sample/affine.cuh).
#include <algorithm>

#include "expr/cuda.h"
#include "kernels/sample/affine.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;  // of a block

/// Of the grid [N, extents…, Rank].
template <int Rank> void add_grid(LaunchPlan& plan, const KernelEntry& entry, const Shape& y) {
  kernels::AffineArgs<void, Rank> a{};
  for (int d = 0; d < Rank; ++d)
    a.extents[d] = Divider(static_cast<uint32_t>(std::max<int64_t>(1, y[static_cast<size_t>(d) + 1])));
  const int64_t count = elements(y) / Rank;
  a.count = static_cast<uint32_t>(count);
  if (count > 0)
    plan.launch(entry, blocks_of(count, threads)).args(a, {{a.theta, {BufferRef::input, 0}}, {a.y, {BufferRef::output, 0}}});
}

}  // namespace

void offer_affine_grid_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& y = b.outputs[0];
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  if (y.type != DType::f32 && y.type != DType::f64 && y.type != DType::f16 && y.type != DType::bf16)
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(y.type));
  const size_t rank = y.shape.size() - 2;
  if (rank != 2 && rank != 3) return offer.refuse("cuda", Reason::wrong_rank, "{} axes of space; it knows 2 and 3", rank);
  if (elements(y.shape) >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", elements(y.shape));
  const KernelEntry entry{"grid", std::to_string(threads), fmt::format("AffineArgs<{}, {}>", expr::cuda_type(y.type), rank),
                          fmt::format("affine_grid<{}>", b.node->get_int("align_corners", 0) != 0)};
  offer.candidates.push_back({"cuda", "", gpu_estimate_us(*machine.gpu, 2.0 * static_cast<double>(storage_bytes(y))),
                              [entry, rank, shape = y.shape, gpu = machine.gpu] {
                                LaunchPlan plan("affine_grid", "#include \"sample/affine.cuh\"\n");
                                rank == 2 ? add_grid<2>(plan, entry, shape) : add_grid<3>(plan, entry, shape);
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops
