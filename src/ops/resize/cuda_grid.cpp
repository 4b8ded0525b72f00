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

/// Of images `x`, for `count` elements of y, so many channels a thread.
template <int Rank> void sample(LaunchPlan& plan, const KernelEntry& entry, const Shape& x, int64_t count, int64_t channels) {
  const Shape steps = strides(x);
  const int64_t outer = x[0] * x[1], groups = (x[1] + channels - 1) / channels;
  const int64_t places = outer == 0 ? 1 : std::max<int64_t>(1, count / outer), work = x[0] * groups * places;
  kernels::GridArgs<void, void, Rank> a{.x = nullptr,
                                        .grid = nullptr,
                                        .y = nullptr,
                                        .channels = x[1],
                                        .places = places,
                                        .plane = steps[1],
                                        .extents = {},
                                        .steps = {},
                                        .groups = static_cast<uint32_t>(groups),
                                        .count = static_cast<uint32_t>(work)};
  std::copy_n(x.begin() + 2, Rank, a.extents);
  std::copy_n(steps.begin() + 2, Rank, a.steps);
  plan.launch(entry, blocks_of(work, threads))
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
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(grid) + 4 * storage_bytes(y));
  const double full = 1024.0 * std::max(1, machine.gpu->info.multiprocessors);
  for (const int64_t channels : {4, 1}) {
    // 64 corners beside four sums are more than the registers that there are: 16 bytes spilled (sm_80).
    if (channels > 1 && (channels > x.shape[1] || (rank == 3 && mode == "cubic"))) continue;
    const KernelEntry entry{"sample", std::to_string(threads),
                            fmt::format("GridArgs<{}, {}, {}>", expr::cuda_type(x.type), expr::cuda_type(grid.type), rank),
                            fmt::format("sample_grid<Padding::{}, Between::{}, {}, {}>", padding, mode,
                                        b.node->get_int("align_corners", 0) != 0, channels)};
    // Weights are some hundred instructions in double; few threads wait for one another's memory.
    const double threads_there = static_cast<double>(count) / static_cast<double>(channels);
    const double estimate = gpu_estimate_us(*machine.gpu, moved * (1 + 2 / static_cast<double>(channels))) *
                            (1 + 0.2 * std::max(0.0, std::min(4.0, full / std::max(threads_there, 1.0)) - 1));
    offer.candidates.push_back({"cuda", channels == 1 ? "" : fmt::format("c{}", channels), estimate,
                                [entry, count, rank, channels, x = x.shape, gpu = machine.gpu] {
                                  LaunchPlan plan("grid", "#include \"sample/grid.cuh\"\n");
                                  if (count > 0) {
                                    const auto sample_rank = rank == 1 ? sample<1> : rank == 2 ? sample<2> : sample<3>;
                                    sample_rank(plan, entry, x, count, channels);
                                  }
                                  return launched(std::move(plan), *gpu);
                                }});
  }
}

}  // namespace smelt::ops
