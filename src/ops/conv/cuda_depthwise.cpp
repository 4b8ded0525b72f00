// Depthwise convolutions of channels-last images, volumes and sequences (src/kernels/conv/depthwise.cuh). Specialised on the filter's taps, the stride
// and dilation along W, the program and how many outputs a thread makes.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/conv/depthwise.h"
#include "ops/conv/cuda_depthwise_kernel.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

constexpr unsigned threads = 128;
using Args = kernels::DepthwiseArgs<void, void>;

/// Whether words of four taps are multiplied (src/kernels/conv/depthwise.cuh).
bool in_words(const GpuRequest& r, int64_t vec) { return r.problem.quantization && vec % 4 == 0 && fit_8_bits(r); }

/// Of the weights: integers less their zero points are words, or added as floats.
DType weight_type(const GpuRequest& r, int64_t vec) {
  if (!r.problem.quantization) return r.weight_type();
  return in_words(r, vec) ? DType::u32 : DType::f32;
}

/// What the kernel is given the program for: words' sums are of the image as it is.
GpuRequest request(const GpuRequest& r, int64_t vec) {
  GpuRequest q = r;
  if (in_words(r, vec)) set_integer_program(q, r.zero());
  return q;
}

std::string source(const GpuRequest& r, int64_t vec, int64_t pixels) {
  const Problem& p = r.problem;
  const Shape taps = three(spatial_of(p.w), 1);
  const std::string config = config_source("DepthwiseConfig", {{"taps_h", taps[1]},
                                                               {"taps_w", taps[2]},
                                                               {"stride_w", p.stride.back()},
                                                               {"dilation_w", p.dilation.back()},
                                                               {"taps_d", p.spatial() == 3 ? taps[0] : 0},
                                                               {"pixels", pixels},
                                                               {"vec", vec},
                                                               {"threads", threads}});
  const KernelEntry conv{"conv", std::to_string(threads),
                         fmt::format("DepthwiseArgs<{}, {}>", expr::cuda_type(p.input), expr::cuda_type(weight_type(r, vec))),
                         fmt::format("depthwise_conv<{}>", config)};
  return "#include \"conv/depthwise.cuh\"\n" + r.epilogue(vec).source(conv, sizeof(Args));
}

/// Filters [taps, C] of ONNX's [C, 1, taps].
Tensor packed(const Tensor& w) {
  const int64_t channels = w.shape()[0], taps = elements(spatial_of(w.shape())), size = bytes(w.type(), 1);
  Tensor to = Tensor::empty(w.type(), {taps, channels});
  StridedCopy({channels, taps}, {taps, 1}, {1, channels}, size, 1).run(to.raw(), w.raw());
  return to;
}

/// Words of the taps of four rows [KD, KH / 4, KW, C] (kernels::depthwise_byte), of i16 weights [C, 1, (KD,) KH, KW] that fit 8 bits.
Tensor words(const Tensor& w) {
  const Shape taps = three(spatial_of(w.shape()), 1);
  const int64_t channels = w.shape()[0], taps_h = taps[1], taps_w = taps[2], rows_of_words = (taps_h + 3) / 4;
  Tensor to = Tensor::zeros(DType::u32, {taps[0], rows_of_words, taps_w, channels});
  auto* words = static_cast<uint32_t*>(to.raw());
  const auto* from = static_cast<const int16_t*>(w.raw());
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t d = 0; d < taps[0]; ++d)
      for (int64_t h = 0; h < taps_h; ++h)
        for (int64_t x = 0; x < taps_w; ++x) {
          const int64_t rows = std::min<int64_t>(4, taps_h - h / 4 * 4);
          const int64_t byte = kernels::depthwise_byte(static_cast<int>(rows), static_cast<int>(c % 4)) + h % 4;
          words[((d * rows_of_words + h / 4) * taps_w + x) * channels + c] |= static_cast<uint32_t>(static_cast<uint8_t>(*from++))
                                                                              << (8 * byte);
        }
  return to;
}

class DepthwiseKernel final : public DepthwiseCuda<Args> {
 public:
  DepthwiseKernel(const GpuRequest& r, int64_t vec, int64_t pixels, const std::string& name)
      : DepthwiseCuda(r, {name, source(r, vec, pixels), r.compile_options()}, r.epilogue(vec),
                      fmt::format("conv:depthwise:{}", smelt::name(weight_type(r, vec))),
                      [&] { return in_words(r, vec) ? words(r.weights()) : packed(r.weights().cast(weight_type(r, vec))); }) {
    const Problem& p = r.problem;
    const Shape out = three(spatial_of(p.y), 1), in = three(spatial_of(p.x[0].shape), 1), steps = five_strides(r.node.inputs[0]);
    const int64_t columns = p.y[1] / vec, groups = (out[2] + pixels - 1) / pixels;
    args.chunks = static_cast<uint32_t>(p.y[0] * out[0] * out[1] * groups * columns);
    args.columns = Divider(static_cast<uint32_t>(columns));
    args.groups = Divider(static_cast<uint32_t>(groups));
    args.rows = Divider(static_cast<uint32_t>(out[1]));
    args.depth = Divider(static_cast<uint32_t>(out[0]));
    const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
    const Shape stride = three(p.stride, 1), pad = three(p.pad_begin, 0), dilation = three(p.dilation, 1);
    args.in_depth = narrow(in[0]), args.height = narrow(in[1]), args.width = narrow(in[2]);
    args.out_width = narrow(out[2]);
    args.stride_d = narrow(stride[0]), args.stride = narrow(stride[1]);
    args.pad_d = narrow(pad[0]), args.pad_h = narrow(pad[1]), args.pad_w = narrow(pad[2]);
    args.dilation_d = narrow(dilation[0]), args.dilation = narrow(dilation[1]);
    args.zero = r.zero();
    copy(args.from, {steps[0], steps[3], steps[4]});
    args.plane = steps[2];
    shape = {.grid = {(int64_t{args.chunks} + threads - 1) / threads}, .block = {threads, 1, 1}};
  }
};

std::optional<Refusal> rejects(const GpuRequest& r) {
  if (auto why = rejects_depthwise(r)) return why;
  const Problem& p = r.problem;
  if (p.spatial() > 3) return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 to 3", p.spatial());
  if (!is_channels_last(r.node.inputs[0]) || !is_channels_last(r.node.outputs[0]))
    return refuse(Reason::wrong_layout, "an image that is not channels-last");
  // A plane's taps are unrolled; floats hold sums of so many products of integers.
  constexpr int64_t most_taps = 81;
  const Shape taps = three(spatial_of(p.w), 1);
  if (taps[1] * taps[2] > most_taps || p.stride.back() > 4 || p.dilation.back() > 4)
    return refuse(Reason::too_large, "{}x{} taps of stride {} and dilation {} along W, expected at most {}, 4 and 4", taps[1],
                  taps[2], p.stride.back(), p.dilation.back(), most_taps);
  if (p.quantization && elements(taps) > most_taps)
    return refuse(Reason::too_large, "{} taps of 8-bit integers, expected at most {}", elements(taps), most_taps);
  return std::nullopt;
}

}  // namespace

void offer_depthwise_cuda(const SharedRequest& shared, Offer& offer) {
  const GpuRequest& r = *shared;
  const Problem& p = r.problem;
  if (p.group == 1 || p.group != p.channels() || p.group != p.outputs()) return;  // not what this is for
  if (const auto why = rejects(r)) return offer.refuse("cuda", why->at("depthwise"));
  const BoundTensor& x = r.node.inputs[0];
  const int64_t size = bytes(p.input, 1), widest = std::min<int64_t>(8, widest_channels(x));
  const double moved = r.moved_bytes();
  const double full = 512.0 * std::max(1, r.gpu->info.multiprocessors);
  for (int64_t vec = widest; vec >= 1 && vec * 4 >= widest; vec /= 2)
    for (const int64_t pixels : {1, 2, 4}) {
      if (pixels > 1 && pixels / 2 >= p.y.back()) break;
      const int64_t vectors = elements(p.y) / vec;
      const double chunks = static_cast<double>(vectors) / static_cast<double>(pixels);
      // Each input vector is read by the windows around it, from the L1 cache but for the first time.
      const double again = static_cast<double>((pixels - 1) * p.stride.back() + (p.w.back() - 1) * p.dilation.back() + 1) /
                           static_cast<double>(pixels);
      const int64_t filter_rows = elements(spatial_of(p.w)) / p.w.back();
      const auto rows = static_cast<double>(filter_rows);
      const double loads = static_cast<double>(elements(p.y)) * rows * again * static_cast<double>(size) / 4;
      const double access = 16.0 / static_cast<double>(std::min<int64_t>(16, vec * size));
      const double estimate = gpu_estimate_us(*r.gpu, moved + loads * access) * (1 + 0.1 * std::max(0.0, full / chunks - 1));
      offer.candidates.push_back(
          {"cuda", fmt::format("depthwise v{} p{}", vec, pixels), estimate, [shared, vec, pixels, name = offer.problem] {
             return std::make_unique<DepthwiseKernel>(request(*shared, vec), vec, pixels, name);
           }});
    }
}

}  // namespace smelt::ops::conv
