// Depthwise convolutions of plain images, of volumes and of sequences (src/kernels/conv/depthwise_rows.cuh). Specialised on the filter's
// taps, the stride and dilation along W, the program and how many outputs a thread makes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/conv/depthwise_rows.h"
#include "ops/conv/cuda_depthwise_kernel.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t warps = 4;             // of a block
constexpr int64_t longest_window = 128;  // input elements that a thread keeps in registers
using Args = kernels::DepthwiseRowsArgs<void, void>;

int64_t window(const Problem& p, int64_t pixels) {
  return (pixels - 1) * p.stride.back() + (p.w.back() - 1) * p.dilation.back() + 1;
}

std::string source(const GpuRequest& r, int64_t pixels) {
  const Problem& p = r.problem;
  const Shape taps = three(spatial_of(p.w), 1);
  const std::string config = config_source("DepthwiseRowsConfig", {{"taps_h", taps[1]},
                                                                   {"taps_w", taps[2]},
                                                                   {"stride_w", p.stride.back()},
                                                                   {"dilation_w", p.dilation.back()},
                                                                   {"taps_d", p.spatial() == 3 ? taps[0] : 0},
                                                                   {"pixels", pixels},
                                                                   {"warps", warps}});
  const KernelEntry conv{"conv", std::to_string(32 * warps),
                         fmt::format("DepthwiseRowsArgs<{}, {}>", expr::cuda_type(p.input), expr::cuda_type(r.weight_type())),
                         fmt::format("depthwise_rows_conv<{}>", config)};
  return "#include \"conv/depthwise_rows.cuh\"\n" + r.epilogue(1).source(conv, sizeof(Args));
}

class DepthwiseRowsKernel final : public DepthwiseCuda<Args> {
 public:
  DepthwiseRowsKernel(const GpuRequest& r, int64_t pixels, const std::string& name)
      : DepthwiseCuda(r, {name, source(r, pixels), r.compile_options()}, r.epilogue(1), "conv:plain",
                      [&] { return r.weights(); }) {
    const Problem& p = r.problem;
    const Shape in = three(spatial_of(p.x[0].shape), 1), out = three(spatial_of(p.y), 1), steps = five_strides(r.node.inputs[0]);
    const Shape stride = three(p.stride, 1), pad = three(p.pad_begin, 0), dilation = three(p.dilation, 1);
    const int64_t tiles = (out[2] + 32 * pixels - 1) / (32 * pixels);
    args.units = static_cast<uint32_t>(p.y[0] * p.outputs() * out[0] * out[1] * tiles);
    args.tiles = Divider(static_cast<uint32_t>(tiles));
    args.rows = Divider(static_cast<uint32_t>(out[1]));
    args.depth = Divider(static_cast<uint32_t>(out[0]));
    args.outputs = Divider(static_cast<uint32_t>(p.outputs()));
    args.multiplier = Divider(static_cast<uint32_t>(p.outputs() / p.group));
    const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
    args.in_depth = narrow(in[0]), args.height = narrow(in[1]), args.width = narrow(in[2]);
    args.out_width = narrow(out[2]);
    args.stride_d = narrow(stride[0]), args.stride = narrow(stride[1]);
    args.pad_d = narrow(pad[0]), args.pad_h = narrow(pad[1]), args.pad_w = narrow(pad[2]);
    args.dilation_d = narrow(dilation[0]), args.dilation = narrow(dilation[1]);
    args.zero = r.zero();
    copy(args.from, {steps[0], steps[1], steps[3]});
    args.plane = steps[2];
    shape = {.grid = {(int64_t{args.units} + warps - 1) / warps}, .block = {static_cast<unsigned>(32 * warps), 1, 1}};
  }
};

/// Why the kernel does not take it; nothing when it does.
std::optional<Refusal> rejects(const GpuRequest& r) {
  if (auto why = rejects_depthwise(r)) return why;
  const Problem& p = r.problem;
  const BoundTensor& x = r.node.inputs[0];
  if (p.spatial() > 3) return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 to 3", p.spatial());
  if (const int64_t step = memory_strides(x).back(); x.shape.back() > 1 && step != 1)
    return refuse(Reason::wrong_layout, "neighbours along W lie {} elements apart, expected 1", step);
  if (window(p, 1) > longest_window || p.stride.back() > 4)
    return refuse(Reason::too_large, "a window of {} elements of stride {} along W, expected at most {} and 4", window(p, 1),
                  p.stride.back(), longest_window);
  return std::nullopt;
}

}  // namespace

void offer_depthwise_rows_cuda(const SharedRequest& shared, Offer& offer) {
  const GpuRequest& r = *shared;
  const Problem& p = r.problem;
  if (p.group == 1 || p.group != p.channels()) return;  // not what this is for
  if (const auto why = rejects(r)) return offer.refuse("cuda", why->at("depthwise_rows"));
  const double size = static_cast<double>(bytes(p.input, 1)), outputs = static_cast<double>(elements(p.y));
  const double taps = static_cast<double>(elements(spatial_of(p.w))), taps_h = taps / static_cast<double>(p.w.back());
  const double moved = r.moved_bytes(), full = 16.0 * std::max(1, r.gpu->info.multiprocessors);
  for (const int64_t pixels : {4, 2, 1}) {
    if (window(p, pixels) > longest_window || (pixels > 1 && 16 * pixels >= p.y.back())) continue;
    // Input rows are read for each of the filter's, from the L2 cache but for the first time; a tile's last elements may be idle.
    const double tile = 32.0 * static_cast<double>(pixels), width = static_cast<double>(p.y.back());
    const double tiles = std::ceil(width / tile), idle = tiles * tile / width;
    const double again = (taps_h - 1) * outputs * static_cast<double>(p.stride.back()) * size / 4;
    // Instructions of an output beside its multiply-adds: its part of a row's staging, of its window, and of the epilogue.
    const double span = static_cast<double>(window(p, pixels)) / static_cast<double>(pixels);
    const double others = taps_h * (6.0 * static_cast<double>(p.stride.back()) + span / static_cast<double>(pixels) +
                                    static_cast<double>(p.w.back()) / static_cast<double>(pixels)) +
                          30;
    const double filled = std::min(1.0, outputs / tile / full);
    constexpr double slower = 40;  // than tensor cores, at best
    const double flops = p.flops() * slower * idle * (taps + others) / taps / std::max(filled, 1e-3);
    offer.candidates.push_back(
        {"cuda", fmt::format("depthwise_rows p{}", pixels), gpu_estimate_us(*r.gpu, moved + again, flops),
         [shared, pixels, name = offer.problem] { return std::make_unique<DepthwiseRowsKernel>(*shared, pixels, name); }});
  }
}

}  // namespace smelt::ops::conv
