// RoiAlign on a GPU (src/kernels/detect/roi_align.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/detect/roi_align.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/detect/offer.h"
#include "ops/detect/roi.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;
constexpr int64_t most_samples = 64;  // along a side of a bin, where the model says how many; else as many as pixels of the map

std::unique_ptr<Kernel> roi_align(const RoiAlign& p, DType type, int64_t group, const Gpu& gpu) {
  const bool wide = type == DType::f64;
  const int blocks = wide ? 2 : p.maximum ? 3 : 4;  // of a multiprocessor at once
  const KernelEntry entry{"roi_align", fmt::format("{}, {}", block, blocks),
                          fmt::format("RoiAlignArgs<{}>", expr::cuda_type(type)),
                          fmt::format("roi_align<{}, {}, {}>", p.maximum, wide ? "2, double" : "4, float", wide ? 512 : 1024)};
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const kernels::RoiAlignArgs<void> a{.x = nullptr,
                                      .rois = nullptr,
                                      .items = nullptr,
                                      .y = nullptr,
                                      .scale = p.scale,
                                      .shift = p.half_pixel ? 0.5 : 0.0,
                                      .batch = narrow(p.batch),
                                      .channels = narrow(p.channels),
                                      .height = narrow(p.height),
                                      .width = narrow(p.width),
                                      .out_height = narrow(p.out_height),
                                      .out_width = narrow(p.out_width),
                                      .sampling = narrow(p.sampling),
                                      .group = narrow(group),
                                      .bins = Divider(static_cast<uint32_t>(p.out_height * p.out_width)),
                                      .row = Divider(static_cast<uint32_t>(p.out_width)),
                                      .regions = static_cast<uint32_t>(p.rois)};
  const int64_t groups = (p.channels + group - 1) / group;
  LaunchPlan plan("roi_align", "#include \"detect/roi_align.cuh\"\n");
  plan.launch(entry, blocks_of(p.rois * groups * block, block))
      .args(a, {{a.x, {BufferRef::input, 0}},
                {a.rois, {BufferRef::input, 1}},
                {a.items, {BufferRef::input, 2}},
                {a.y, {BufferRef::output, 0}}});
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_roi_align_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  if (x.type != DType::f32 && x.type != DType::f16 && x.type != DType::bf16 && x.type != DType::f64)
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(x.type));
  const RoiAlign p = roi_align_of(*b.node, x.shape, b.inputs[1].shape, b.inputs[2].shape);
  constexpr int64_t limit = int64_t{1} << 28;
  if (p.height * p.width > limit || p.channels * p.out_height * p.out_width > limit || p.sampling > most_samples ||
      p.batch > limit)
    return offer.refuse("cuda", Reason::too_large,
                        "{} maps of {} x {}, {} bins of its channels, {} samples; it knows {}, {}, {} and {}", p.batch, p.height,
                        p.width, p.channels * p.out_height * p.out_width, p.sampling, limit, limit, limit, most_samples);
  const double moved = static_cast<double>(storage_bytes(x) + 4 * storage_bytes(y));
  // Channels that share a block share its lists; with few of them, the planes that are read at the same time fit into the L2 cache.
  int64_t before = 0;
  for (const int64_t wanted : {64, 16, 256}) {
    const int64_t group = std::min(wanted, p.channels);
    if (group == before || p.rois * ((p.channels + group - 1) / group) > limit / block) continue;
    before = group;
    offer.candidates.push_back({"cuda", fmt::format("channels {}", group),
                                gpu_estimate_us(*machine.gpu, moved) + (wanted == 64 ? 4 : 6),
                                [p, type = x.type, group, gpu = machine.gpu] { return roi_align(p, type, group, *gpu); }});
  }
}

}  // namespace smelt::ops
