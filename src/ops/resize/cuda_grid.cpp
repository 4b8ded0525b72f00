// GridSample on a GPU (src/kernels/sample/grid.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/sample/grid_geometry.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

bool real(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16; }

/// Of images `x`, for `count` elements of y.
template <int Rank> kernels::GridGeometry<Rank> geometry(const Shape& x, int64_t count) {
  const Shape steps = strides(x);
  const int64_t outer = x[0] * x[1];
  kernels::GridGeometry<Rank> g{.count = static_cast<uint32_t>(count),
                                .channels = x[1],
                                .places = outer == 0 ? 1 : std::max<int64_t>(1, count / outer),
                                .plane = steps[1],
                                .extents = {},
                                .steps = {}};
  std::copy_n(x.begin() + 2, Rank, g.extents);
  std::copy_n(steps.begin() + 2, Rank, g.steps);
  return g;
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
  const std::string body = fmt::format("sample_grid<{}, {}, {}, Padding::{}, Between::{}, {}>", expr::cuda_type(x.type),
                                       expr::cuda_type(grid.type), rank, padding, mode, b.node->get_int("align_corners", 0) != 0);
  const std::vector<Parameter> parameters = {{read_only(x.type), "x"},
                                             {read_only(grid.type), "grid"},
                                             {writable(x.type), "y"},
                                             {fmt::format("GridGeometry<{}>", rank), "g"}};
  const std::string source = "#include \"sample/grid.cuh\"\n" + entry_source("sample", "256", parameters, body);
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(grid) + 4 * storage_bytes(y));
  offer.candidates.push_back(
      {"cuda", "", gpu_estimate_us(*machine.gpu, moved), [source, count, rank, x = x.shape, gpu = machine.gpu] {
         LaunchPlan plan("grid", source);
         if (count > 0) {
           Launch& l = plan.launch("sample", blocks_of(count, 256)).input(0).input(1).output(0);
           rank == 1   ? l.value(geometry<1>(x, count))
           : rank == 2 ? l.value(geometry<2>(x, count))
                       : l.value(geometry<3>(x, count));
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops
