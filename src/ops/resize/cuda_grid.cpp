// GridSample on a GPU (src/kernels/sample/grid.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/sample/grid.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;  // of a block

bool real(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16; }

/// Of images `x`, for `count` elements of y.
template <int Rank> void sample(LaunchPlan& plan, const KernelEntry& entry, const Shape& x, int64_t count) {
  const Shape steps = strides(x);
  const int64_t outer = x[0] * x[1];
  kernels::GridArgs<void, void, Rank> a{.x = nullptr,
                                        .grid = nullptr,
                                        .y = nullptr,
                                        .channels = x[1],
                                        .places = outer == 0 ? 1 : std::max<int64_t>(1, count / outer),
                                        .plane = steps[1],
                                        .extents = {},
                                        .steps = {},
                                        .count = static_cast<uint32_t>(count)};
  std::copy_n(x.begin() + 2, Rank, a.extents);
  std::copy_n(steps.begin() + 2, Rank, a.steps);
  plan.launch(entry, blocks_of(count, threads))
      .args(a, {{a.x, {BufferRef::input, 0}}, {a.grid, {BufferRef::input, 1}}, {a.y, {BufferRef::output, 0}}});
}

}  // namespace

void offer_grid_sample_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &grid = b.inputs[1], &y = b.outputs[0];
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  for (const BoundTensor* t : {&x, &grid, &y})
    if (!real(t->type)) return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(t->type));
  const size_t rank = x.shape.size() - 2;
  if (rank < 1 || rank > 3) return offer.refuse("cuda", Reason::wrong_rank, "{} axes of space; it knows 1 to 3", rank);
  const int64_t count = elements(y.shape);
  if (count >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", count);
  const std::string padding = b.node->get_string("padding_mode", "zeros"), asked = b.node->get_string("mode", "linear");
  const std::string mode = asked.starts_with("bi") ? asked.substr(2) : asked;
  if ((padding != "zeros" && padding != "border" && padding != "reflection") ||
      (mode != "nearest" && mode != "linear" && mode != "cubic"))
    return offer.refuse("cuda", Reason::wrong_attribute, "mode {} with padding {}", asked, padding);
  const KernelEntry entry{
      "sample", std::to_string(threads),
      fmt::format("GridArgs<{}, {}, {}>", expr::cuda_type(x.type), expr::cuda_type(grid.type), rank),
      fmt::format("sample_grid<Padding::{}, Between::{}, {}>", padding, mode, b.node->get_int("align_corners", 0) != 0)};
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(grid) + 4 * storage_bytes(y));
  offer.candidates.push_back(
      {"cuda", "", gpu_estimate_us(*machine.gpu, moved), [entry, count, rank, x = x.shape, gpu = machine.gpu] {
         LaunchPlan plan("grid", "#include \"sample/grid.cuh\"\n");
         if (count > 0) {
           const auto sample_rank = rank == 1 ? sample<1> : rank == 2 ? sample<2> : sample<3>;
           sample_rank(plan, entry, x, count);
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
