// DeformConv on a GPU (src/kernels/conv/deform.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/conv/deform.h"
#include "ops/conv/conv.h"
#include "ops/conv/offer.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t warps = 8, depth = 32;

/// Why the kernel does not take it; nothing when it does.
std::optional<Refusal> rejects(const BoundNode& b, const ConvProblem& p) {
  const DType type = b.outputs[0].type;
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    return refuse(Reason::wrong_type, "elements of {}, expected f32, f16 or bf16", name(type));
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && (t.type != type || t.layout != Layout::plain || !is_dense(t)))
        return refuse(Reason::wrong_layout, "tensors that are not dense, row-major and of one type");
  if (p.in.size() != 2) return refuse(Reason::wrong_rank, "{} spatial axes, expected 2", p.in.size());
  const int64_t most = std::max({p.n * elements(p.out), elements(b.inputs[0].shape), elements(b.inputs[1].shape)});
  if (most >= int64_t{1} << 31) return refuse(Reason::too_large, "{} pixels or elements; it counts to 2^31", most);
  return std::nullopt;
}

using Args = kernels::DeformArgs<void>;

/// All but the tensors.
Args arguments(const ConvProblem& p, int64_t offset_groups, int64_t tile) {
  const auto divider = [](int64_t v) { return Divider(static_cast<uint32_t>(v)); };
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  Args g{};
  g.pixels = static_cast<uint32_t>(p.n * elements(p.out));
  g.plane = divider(elements(p.out)), g.row = divider(p.out[1]);
  g.tiles = divider((p.m / p.group + tile - 1) / tile);
  g.taps = divider(elements(p.window.kernel)), g.taps_w = divider(p.window.kernel[1]);
  g.sharing = divider(p.c / offset_groups);
  g.channels = narrow(p.c), g.group_channels = narrow(p.c / p.group), g.group_outputs = narrow(p.m / p.group);
  g.height = narrow(p.in[0]), g.width = narrow(p.in[1]);
  for (size_t a = 0; a < 2; ++a) {
    g.stride[a] = narrow(p.window.stride[a]);
    g.pad[a] = narrow(p.window.pad_begin[a]);
    g.dilation[a] = narrow(p.window.dilation[a]);
  }
  g.offset_groups = narrow(offset_groups);
  return g;
}

std::unique_ptr<Kernel> deform(const BoundNode& b, const ConvProblem& p, int64_t outputs, const Gpu& gpu) {
  const DType type = b.outputs[0].type;
  const std::string config = config_source("DeformConfig", {{"warps", warps}, {"outputs", outputs}, {"depth", depth}});
  const KernelEntry entry{"deform", std::to_string(32 * warps), fmt::format("DeformArgs<{}>", expr::cuda_type(type)),
                          fmt::format("deform_conv<{}>", config)};
  const Args a = arguments(p, b.node->get_int("offset_group", 1), warps * outputs);
  const auto input = [](size_t i) { return BufferRef{BufferRef::input, i}; };
  const auto optional = [&](size_t i) { return b.has(i) ? std::optional(input(i)) : std::nullopt; };
  LaunchPlan plan("deform", "#include \"conv/deform.cuh\"\n");
  plan.launch(entry, {.grid = {(int64_t{a.pixels} + 31) / 32, int64_t{a.tiles.divisor} * p.group},
                      .block = {static_cast<unsigned>(32 * warps), 1, 1}})
      .args(a, {{a.x, input(0)},
                {a.w, input(1)},
                {a.offset, input(2)},
                {a.bias, optional(3)},
                {a.mask, optional(4)},
                {a.y, {BufferRef::output, 0}}});
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_deform_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const ConvProblem p = conv_problem(*b.node, b.inputs[0].shape, b.inputs[1].shape);
  if (const auto why = rejects(b, p)) return offer.refuse("cuda", *why);
  double moved = 0;
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined) moved += static_cast<double>(storage_bytes(t));
  const double rows = static_cast<double>(elements(b.inputs[1].shape)) / static_cast<double>(p.m);
  const double pixels = static_cast<double>(p.n * elements(p.out));
  for (const int64_t outputs : {8, 4, 1}) {
    const int64_t tile = warps * outputs, tiles = (p.m / p.group + tile - 1) / tile;
    if (outputs > 1 && tile / 2 >= p.m / p.group) continue;  // half of its warps would be idle
    // Of a row: a sample of some 60 instructions for each tile, and a multiply-add and its part of an access for each output.
    const double instructions = pixels * rows * static_cast<double>(p.group * tiles) *
                                (60 + static_cast<double>(tile) * (1 + 2.0 / static_cast<double>(outputs)));
    constexpr double slower = 40;  // than tensor cores, at best
    offer.candidates.push_back({"cuda", fmt::format("deform v{}", outputs),
                                gpu_estimate_us(*machine.gpu, moved, instructions * 2 * slower),
                                [b, p, outputs, gpu = machine.gpu] { return deform(b, p, outputs, *gpu); }});
  }
}

}  // namespace smelt::ops::conv
