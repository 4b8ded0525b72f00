// Col2Im on a GPU (src/kernels/conv/fold.cuh).
#include <algorithm>

#include "expr/cuda.h"
#include "kernels/conv/fold.h"
#include "ops/conv/col2im.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;  // of a block

template <int Rank> void add_fold(LaunchPlan& plan, const KernelEntry& entry, const Blocks& blocks, int64_t count) {
  kernels::FoldArgs<void, Rank> a{};
  const Window& w = blocks.window;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  for (int axis = 0; axis < Rank; ++axis) {
    const auto d = static_cast<size_t>(axis);
    a.extents[axis] = Divider(static_cast<uint32_t>(std::max<int64_t>(1, blocks.image[d])));
    a.strides[axis] = Divider(static_cast<uint32_t>(w.stride[d]));
    a.taps[axis] = narrow(w.kernel[d]), a.pad[axis] = narrow(w.pad_begin[d]), a.dilation[axis] = narrow(w.dilation[d]);
    a.places[axis] = narrow(blocks.places[d]);
  }
  a.count = static_cast<uint32_t>(count);
  if (count > 0)
    plan.launch(entry, blocks_of(count, threads)).args(a, {{a.x, {BufferRef::input, 0}}, {a.y, {BufferRef::output, 0}}});
}

/// What elements are added up in; null for none.
const char* summed_in(DType t) {
  if (t == DType::f16 || t == DType::bf16 || t == DType::f32) return "float";
  if (t == DType::f64) return "double";
  return is_integer(t) && bits(t) >= 8 ? "u64" : nullptr;  // wraps
}

}  // namespace

void offer_col2im_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.inputs[0].type;
  if (!summed_in(type)) return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(type));
  if (!b.constant(1) || !b.constant(2)) return offer.refuse("cuda", Reason::not_constant, "its image or its block is computed");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const Blocks blocks = blocks_of(*b.node, b.inputs[0].shape, b.constant(1)->to_ints(), b.constant(2)->to_ints());
  const size_t rank = blocks.image.size();
  if (rank < 1 || rank > 3) return offer.refuse("cuda", Reason::wrong_rank, "{} axes of space; it knows 1 to 3", rank);
  constexpr int64_t most = int64_t{1} << 31;
  const int64_t count = elements(b.outputs[0].shape);
  for (const int64_t numbers : {count, elements(blocks.window.kernel) * elements(blocks.places)})
    if (numbers >= most) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", numbers);
  for (size_t d = 0; d < rank; ++d)
    if (blocks.image[d] + blocks.window.pad_begin[d] + blocks.window.extent(d) >= most)
      return offer.refuse("cuda", Reason::too_large, "an axis of {} with its pads; it counts to 2^31", blocks.image[d]);
  const KernelEntry entry{"fold", std::to_string(threads), fmt::format("FoldArgs<{}, {}>", expr::cuda_type(type), rank),
                          fmt::format("fold_blocks<{}>", summed_in(type))};
  const double moved = static_cast<double>(storage_bytes(b.inputs[0]) + storage_bytes(b.outputs[0]));
  offer.candidates.push_back({"cuda", "", gpu_estimate_us(*machine.gpu, moved), [entry, rank, blocks, count, gpu = machine.gpu] {
                                LaunchPlan plan("col2im", "#include \"conv/fold.cuh\"\n");
                                const auto add = rank == 1 ? add_fold<1> : rank == 2 ? add_fold<2> : add_fold<3>;
                                add(plan, entry, blocks, count);
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops
