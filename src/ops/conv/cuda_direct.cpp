// Convolutions of every geometry, type and layout by multiply-adds (src/kernels/conv/direct.cuh). Specialised on the types, the
// program, the upsampling factors and how many outputs a thread makes; all else is arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/conv/direct.h"
#include "ops/conv/cuda_request.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t threads = 128;
constexpr int64_t most = int64_t{1} << 31;  // Divider's numbers
constexpr int most_segments = 8;
using Args = kernels::DirectArgs<void, void, most_segments>;

struct Shaped {
  int64_t vec = 1, pixels = 1;  // of a thread
  int64_t lanes = 32;           // threads side by side along the channels (channels last) or the pixels of a block
  bool packed = false;          // the weights are
};

std::string source(const GpuRequest& r, const Shaped& s) {
  // Lanes along the channels where they are side by side in memory, else along the pixels.
  const std::string config = config_source("DirectConfig", {{"transposed", r.problem.transposed},
                                                            {"pixels", s.pixels},
                                                            {"vec", s.vec},
                                                            {"threads", threads},
                                                            {"lanes", s.lanes},
                                                            {"channels_last", r.problem.from == Layout::nhwc}});
  const std::vector<Input>& x = r.problem.x;
  std::string upsampling;
  for (const Input& one : x) upsampling += fmt::format(", {}", one.upsample);
  const KernelEntry conv{
      "conv", fmt::format("{}, 4", threads),
      fmt::format("DirectArgs<{}, {}, {}>", expr::cuda_type(r.problem.input), expr::cuda_type(r.weight_type()), x.size()),
      fmt::format("direct_conv<{}{}>", config, upsampling)};
  return "#include \"conv/direct.cuh\"\n" + r.epilogue(s.vec).source(conv, kernels::direct_bytes(static_cast<int>(x.size())));
}

class DirectKernel final : public CompiledKernel {
 public:
  DirectKernel(const GpuRequest& r, const Shaped& s, const std::string& name)
      : CompiledKernel(*r.gpu, {name, source(r, s), r.compile_options()}, "conv"),
        epilogue_(r.epilogue(s.vec)),
        at_(r.at),
        segments_(r.problem.x.size()) {
    const Problem& p = r.problem;
    const BoundTensor& w = r.node.inputs[r.at.w];
    const int64_t taps = elements(spatial_of(p.w)), group_m = p.outputs() / p.group;
    const int64_t channels = p.transposed ? p.w[0] / p.group : p.w[1];
    if (s.packed && r.gpu->device) {
      weights_ = r.gpu->weights->packed(r.gpu->device, w.constant,
                                        r.packing("conv:direct").option("g", p.group).flag("t", p.transposed).text(),
                                        [&] { return taps_by_channels(r.weights(), p); });
    }
    packed_ = s.packed;
    const Shape out = three(spatial_of(p.y), 1);
    args_.rows = static_cast<uint32_t>(p.y[0] * elements(out));
    args_.columns = static_cast<uint32_t>(p.outputs() / s.vec);
    for (size_t a = 0; a < 3; ++a) args_.extents[a] = Divider(static_cast<uint32_t>(std::max<int64_t>(1, out[2 - a])));
    args_.group = Divider(static_cast<uint32_t>(std::max<int64_t>(1, group_m / s.vec)));
    args_.group_channels = static_cast<int32_t>(channels);
    args_.zero = r.zero();
    Shape in = spatial_of(p.x[0].shape);
    for (int64_t& extent : in) extent *= p.x[0].upsample;
    copy(args_.in, three(in, 1));
    copy(args_.stride, three(p.stride, 1));
    copy(args_.pad, three(p.pad_begin, 0));
    copy(args_.dilation, three(p.dilation, 1));
    copy(args_.taps, three(spatial_of(p.w), 1));
    if (s.packed)
      args_.w_group = group_m, args_.w_m = 1, args_.w_c = p.outputs(), args_.w_tap = channels * p.outputs();
    else if (p.transposed)
      args_.w_group = channels * group_m * taps, args_.w_m = taps, args_.w_c = group_m * taps, args_.w_tap = 1;
    else
      args_.w_group = group_m * channels * taps, args_.w_m = channels * taps, args_.w_c = taps, args_.w_tap = 1;
    int64_t first = 0;
    for (size_t i = 0; i < segments_; ++i) {
      kernels::DirectSegment<void>& one = args_.segments[i];
      copy(one.from, five_strides(r.node.inputs[i]));
      one.channels = static_cast<int32_t>(segments_ > 1 ? p.x[i].shape[1] : channels);
      one.first = static_cast<int32_t>(first);
      first += one.channels;
    }
    const bool last = p.from == Layout::nhwc;
    const int64_t other = threads / s.lanes, columns = last ? s.lanes : other, rows = (last ? other : s.lanes) * s.pixels;
    grid_ = {(args_.rows + rows - 1) / rows, (args_.columns + columns - 1) / columns};
  }

  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i < segments_ || (i == at_.w && !packed_) || epilogue_.reads(i); }

  void run(const Buffers& b) override {
    if (args_.rows == 0 || args_.columns == 0) return;
    ops::Arguments arguments;
    args_.w = weights_ ? reinterpret_cast<const void*>(weights_->address()) : b.inputs[at_.w];
    for (size_t i = 0; i < segments_; ++i) args_.segments[i].x = b.inputs[i];
    arguments.bytes(&args_, kernels::direct_bytes(static_cast<int>(segments_)));
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, {.grid = grid_, .block = {static_cast<unsigned>(threads), 1, 1}}, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  conv::Arguments at_;
  size_t segments_;
  bool packed_ = false;
  std::shared_ptr<device::cuda::Memory> weights_;
  Args args_{};  // of which the first segments_ are given
  device::cuda::Grid grid_;
};

}  // namespace

void offer_direct_cuda(const SharedRequest& shared, Offer& offer) {
  const GpuRequest& r = *shared;
  const Problem& p = r.problem;
  const auto is_float = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64; };
  const BoundTensor& w = r.node.inputs[r.at.w];
  if (!r.problem.quantization && (!is_float(p.input) || w.type != p.input))
    return offer.refuse("cuda", Reason::wrong_type, "direct: {} by {}", smelt::name(p.input), smelt::name(w.type));
  if (p.spatial() > 3) return offer.refuse("cuda", Reason::wrong_rank, "direct: {} spatial axes, expected 1 to 3", p.spatial());
  if (p.x.size() > 1 && p.group != 1)
    return offer.refuse("cuda", Reason::unsupported, "direct: {} inputs in {} groups", p.x.size(), p.group);
  if (p.x.size() > size_t{most_segments})
    return offer.refuse("cuda", Reason::too_large, "direct: {} inputs, expected at most {}", p.x.size(), most_segments);
  int64_t largest = elements(p.y);
  for (size_t i = 0; i < p.x.size(); ++i) {
    const BoundTensor& x = r.node.inputs[i];
    largest = std::max(largest, storage_bytes(x) / bytes(x.type, 1));
  }
  if (largest >= most)
    return offer.refuse("cuda", Reason::too_large, "direct: images that span {} elements, expected less than 2^31", largest);

  const bool last = p.from == Layout::nhwc;
  const int64_t m = p.outputs(), group_m = m / p.group, rows = m == 0 ? 0 : elements(p.y) / m;
  const double moved = r.moved_bytes();
  // Kernels that are meant for the problem multiply the same with fewer instructions; of little work the guesses are none.
  constexpr double dearer = 1.1;
  double meant = std::numeric_limits<double>::infinity();
  for (const Candidate& c : offer.candidates)
    if (c.config.starts_with("depthwise") || c.config.starts_with("grouped")) meant = std::min(meant, c.estimate_us);
  const double at_least = std::isfinite(meant) ? dearer * meant : 0;
  for (Candidate& c : offer.candidates)
    if (c.config.starts_with("phases direct")) c.estimate_us = std::max(c.estimate_us, at_least);
  size_t widths = 0;
  for (const int64_t vec : {8, 4, 2, 1}) {
    Shaped s;
    s.vec = vec;
    s.packed = w.constant.valid() && elements(p.w) > 0;
    if (vec > 1 && (group_m % vec != 0 || !s.packed)) continue;
    for (const int64_t pixels : {4, 1}) {
      s.pixels = pixels;
      if (last)
        while (s.lanes > 4 && s.lanes / 2 * vec >= m) s.lanes /= 2;
      // Of 2^x threads those beyond the tensors' ends lie idle, and a multiply-add is worth what it shares its loads with.
      const double columns = static_cast<double>(m) / static_cast<double>(vec),
                   full = 1024.0 * std::max(1, r.gpu->info.multiprocessors);
      const double used = last ? std::min(1.0, columns / static_cast<double>(s.lanes)) : 1;
      const double filled = std::min(1.0, static_cast<double>(rows) * columns / static_cast<double>(pixels) / full);
      const double rate = static_cast<double>(vec * pixels) / static_cast<double>(vec * pixels + 2 * pixels + 4) * used * filled;
      // A thread's loads are a chain, of which as many as the loop is unrolled by are on their way at once: so long a small problem
      // takes at least (120 channels of one pixel 8.5 us on an H100).
      constexpr double of_load = 0.28;
      const double chain =
          of_load * static_cast<double>(elements(p.w)) / static_cast<double>(std::max<int64_t>(1, p.w[0])) / (pixels > 1 ? 1 : 4);
      const double slower = p.input == DType::f64 || r.problem.quantization ? 80 : 40;  // than tensor cores, at best
      offer.candidates.push_back(
          {"cuda", fmt::format("direct v{} p{} l{}", s.vec, s.pixels, s.lanes),
           std::max({at_least, chain, gpu_estimate_us(*r.gpu, moved, p.flops() * slower / std::max(rate, 1e-3))}),
           [shared, s, name = offer.problem] { return std::make_unique<DirectKernel>(*shared, s, name); }});
    }
    if (++widths == 2) break;
  }
}

}  // namespace smelt::ops::conv
