// Convolutions in groups of few channels, and transposed ones, by multiply-adds (src/kernels/conv/grouped.cuh). Specialised on the types, a
// group's channels and outputs, the taps along W, the program and what a thread makes; all else is arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/number.h"
#include "ops/conv/cuda_grouped.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {

kernels::GroupedAxis grouped_axis(const Problem& p, size_t a) {
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const int64_t stride = p.stride[a], taps = p.w[a + 2], dilation = taps == 1 ? 1 : p.dilation[a];
  const int64_t common = std::gcd(stride, dilation), period = stride / common, step = dilation / common;
  int64_t inverse = 0;
  while (inverse < period && inverse * step % period != 1 % period) ++inverse;
  return {.in = narrow(p.x[0].shape[a + 2]),
          .taps = narrow(taps),
          .stride = narrow(stride),
          .pad = narrow(p.pad_begin[a]),
          .dilation = narrow(dilation),
          .tap_step = narrow(p.transposed ? period : 1),
          .pixel_step = narrow(p.transposed ? -step : dilation),
          .common = narrow(common),
          .inverse = narrow(inverse)};
}

namespace {

constexpr int64_t threads = 128;
constexpr int64_t most = int64_t{1} << 31;  // Divider's numbers
using Args = kernels::GroupedArgs<void, void>;

/// What a thread makes, as kernels::GroupedConfig has it.
struct Tile {
  int64_t span = 1, vec = 1, pixels = 1, chunk = 1, load = 1, unroll = 1, lanes = 32;
};

/// A group's numbers.
struct Group {
  int64_t channels, outputs, element;
  bool words, last;  // last: a pixel's channels lie side by side
  int64_t unit() const { return words ? 4 : 1; }
  int64_t depth() const { return channels / unit(); }

  explicit Group(const GpuRequest& r)
      : channels(r.problem.channels() / r.problem.group), outputs(r.problem.outputs() / r.problem.group) {
    element = bytes(r.problem.input, 1);
    words = r.problem.quantization && channels % 4 == 0 && fit_8_bits(r);
    const BoundTensor& x = r.node.inputs[r.at.x];
    last = memory_strides(x)[1] == 1 || x.shape[1] == 1;
  }
};

DType weight_type(const GpuRequest& r, const Group& g) {
  if (g.words) return DType::u32;
  return r.problem.quantization ? DType::i16 : DType::f32;
}

/// What the kernel is given the program for: words' sums are of the image as it is.
GpuRequest request(const GpuRequest& r, const Group& g) {
  GpuRequest q = r;
  if (g.words) set_integer_program(q, r.zero());
  return q;
}

int64_t largest_power(int64_t divides) { return divides & -divides; }

/// Columns that the program is applied to at a time.
int64_t epilogue_width(const Tile& t) { return std::min<int64_t>(8, largest_power(t.vec)); }

std::string source(const GpuRequest& r, const Group& g, const Tile& t) {
  const int64_t wide = 16 / bytes(weight_type(r, g), 1);
  const std::string config = config_source("GroupedConfig", {{"transposed", r.problem.transposed},
                                                             {"channels", g.channels},
                                                             {"outputs", g.outputs},
                                                             {"span", t.span},
                                                             {"vec", t.vec},
                                                             {"pixels", t.pixels},
                                                             {"chunk", t.chunk},
                                                             {"load", t.load},
                                                             {"weights", std::min(wide, largest_power(t.vec))},
                                                             {"taps_w", r.problem.w.back()},
                                                             {"unroll", t.unroll},
                                                             {"threads", threads},
                                                             {"lanes", t.lanes},
                                                             {"channels_last", g.last},
                                                             {"words", g.words}});
  const KernelEntry conv{"conv", fmt::format("{}, 3", threads),
                         fmt::format("GroupedArgs<{}, {}>", expr::cuda_type(r.problem.input), expr::cuda_type(weight_type(r, g))),
                         fmt::format("grouped_conv<{}>", config)};
  return "#include \"conv/grouped.cuh\"\n" + r.epilogue(epilogue_width(t)).source(conv, sizeof(Args));
}

/// Words [taps, C / group / 4, M] of four channels' bytes, of i16 weights [M, C / group, taps] that fit 8 bits.
Tensor words(const Tensor& w) {
  const int64_t outputs = w.shape()[0], channels = w.shape()[1], taps = elements(spatial_of(w.shape()));
  Tensor to = Tensor::zeros(DType::u32, {taps, channels / 4, outputs});
  auto* const words = static_cast<uint32_t*>(to.raw());
  const auto* from = static_cast<const int16_t*>(w.raw());
  for (int64_t m = 0; m < outputs; ++m)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        words[(tap * (channels / 4) + c / 4) * outputs + m] |= static_cast<uint32_t>(static_cast<uint8_t>(*from++))
                                                               << (8 * (c % 4));
  return to;
}

class GroupedKernel final : public CompiledKernel {
 public:
  GroupedKernel(const GpuRequest& r, const Group& g, const Tile& t, const std::string& name)
      : CompiledKernel(*r.gpu, {name, source(r, g, t), r.compile_options()}, "conv"),
        epilogue_(r.epilogue(epilogue_width(t))),
        at_(r.at) {
    const Problem& p = r.problem;
    if (r.gpu->device) {
      const Key key = r.packing(g.words ? "conv:grouped:words" : "conv:grouped").option("g", p.group).flag("t", p.transposed);
      weights_ = r.gpu->weights->packed(r.gpu->device, r.weight().constant, key.text(), [&] {
        return g.words ? words(r.weights()) : taps_by_channels(r.weights(), p).cast(weight_type(r, g));
      });
      args_.w = reinterpret_cast<const void*>(weights_->address());
    }
    const Shape out = three(spatial_of(p.y), 1);
    args_.rows = static_cast<uint32_t>(p.y[0] * elements(out));
    args_.columns = static_cast<uint32_t>(p.outputs() / t.vec);
    for (size_t a = 0; a < 3; ++a) args_.extents[a] = Divider(static_cast<uint32_t>(out[2 - a]));
    args_.parts = Divider(static_cast<uint32_t>(t.span > 1 ? 1 : g.outputs / t.vec));
    copy(args_.from, five_strides(r.node.inputs[0]));
    args_.zero = r.zero();
    const size_t lacks = 3 - p.spatial();
    for (size_t a = 0; a < 3; ++a)
      args_.axes[a] =
          a < lacks ? kernels::GroupedAxis{1, 1, 1, 0, 1, 1, p.transposed ? -1 : 1, 1, 0} : grouped_axis(p, a - lacks);
    const int64_t other = threads / t.lanes, columns = g.last ? t.lanes : other, rows = (g.last ? other : t.lanes) * t.pixels;
    grid_ = {(args_.rows + rows - 1) / rows, (args_.columns + columns - 1) / columns};
  }

  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i == 0 || epilogue_.reads(i); }

  void run(const Buffers& b) override {
    args_.x = b.inputs[0];
    ops::Arguments arguments;
    arguments.value(args_).bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, {.grid = grid_, .block = {static_cast<unsigned>(threads), 1, 1}}, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  conv::Arguments at_;
  std::shared_ptr<device::cuda::Memory> weights_;
  Args args_{};
  device::cuda::Grid grid_;
};

std::optional<Refusal> rejects(const GpuRequest& r) {
  const Problem& p = r.problem;
  const BoundTensor &x = r.node.inputs[0], &w = r.weight();
  const bool real = p.input == DType::f16 || p.input == DType::bf16 || p.input == DType::f32;
  if (!p.quantization && (!real || w.type != p.input))
    return refuse(Reason::wrong_type, "{} by {}", smelt::name(p.input), smelt::name(w.type));
  if (p.x.size() > 1 || p.x[0].upsample != 1) return refuse(Reason::unsupported, "upsampled or of several inputs");
  if (p.spatial() > 3) return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 to 3", p.spatial());
  if (!w.constant.valid()) return refuse(Reason::not_constant, "weights that are not constant");
  if (elements(x.shape) == 0 || elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (p.transposed && std::ranges::any_of(p.pad_begin, [](int64_t pad) { return pad < 0; }))
    return refuse(Reason::wrong_attribute, "transposed, with pads of less than 0");
  const int64_t largest = std::max(elements(p.y), storage_bytes(x) / bytes(x.type, 1));
  if (largest >= most) return refuse(Reason::too_large, "images that span {} elements; it counts to 2^31", largest);
  return std::nullopt;
}

/// The widest access to `count` neighbouring channels that begin at multiples of `count` and of a group's: elements.
int64_t widest_load(const GpuRequest& r, const Group& g, int64_t count, int64_t begin) {
  if (!g.last) return 1;
  int64_t wide = std::min({widest_channels(r.node.inputs[0]), 16 / g.element, largest_power(count), largest_power(begin)});
  return largest_power(std::max<int64_t>(1, wide));
}

/// The rest of a thread's part of so many groups and outputs, or nothing, where it has not the registers.
std::optional<Tile> completed(const GpuRequest& r, const Group& g, Tile t) {
  constexpr int64_t most_sums = 32, most_terms = 32;
  const Problem& p = r.problem;
  const int64_t depth = g.depth();
  t.chunk = depth;
  if (t.span == 1 && depth > 8) {
    int64_t divisor = 8;
    while (depth % divisor != 0) --divisor;
    if (divisor >= 4 || depth > 16) t.chunk = divisor;
  }
  const int64_t terms = t.span * t.chunk;
  if (t.pixels * t.vec > most_sums || t.pixels * terms > (t.pixels > 1 ? most_terms : 2 * most_terms)) return std::nullopt;
  if (t.pixels > 1 && (p.transposed || elements(p.y) / p.outputs() < t.pixels)) return std::nullopt;
  const int64_t wide = widest_load(r, g, terms * g.unit(), t.span * g.channels);
  t.load = g.words ? wide / 4 : wide;
  const int64_t products = depth * t.vec * t.pixels,
                kept = t.pixels * terms * (t.load == 0 ? 4 : 1);  // bytes, where they are gathered
  t.unroll = p.transposed ? 1 : std::clamp<int64_t>(std::min(128 / products, 32 / kept), 1, p.w.back());
  t.lanes = 32;
  if (g.last)
    while (t.lanes > 4 && t.lanes / 2 * t.vec >= p.outputs()) t.lanes /= 2;
  return t;
}

/// All that suit, span by span and part by part.
std::vector<Tile> tiles(const GpuRequest& r, const Group& g) {
  constexpr int64_t most_outputs = 8, most_odd = 16;
  std::vector<Tile> parts, all;
  for (int64_t vec = most_outputs; vec >= 1; --vec)
    if (g.outputs % vec == 0 && (parts.size() < 2 || vec >= 4)) parts.push_back({.vec = vec});
  if (g.outputs > most_outputs && g.outputs <= most_odd && parts.front().vec < 4) parts.push_back({.vec = g.outputs});
  for (int64_t span = most_outputs / g.outputs; g.last && span > 1; --span)
    if (r.problem.group % span == 0) parts.push_back({.span = span, .vec = span * g.outputs});
  for (Tile t : parts)
    for (const int64_t pixels : {4, 2, 1}) {
      t.pixels = pixels;
      if (const auto made = completed(r, g, t)) all.push_back(*made);
    }
  return all;
}

/// Microseconds, guessed: by the instructions that a thread issues and by what it takes from the L1 cache.
double estimate_us(const GpuRequest& r, const Group& g, const Tile& t, double moved) {
  const Problem& p = r.problem;
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const bool integers = p.quantization.has_value();
  double taps = 1, lines = 1;  // that an output meets; rows of them
  for (size_t a = 0; a < p.spatial(); ++a) {
    const double met = real(divide_up(p.w[a + 2], int64_t{grouped_axis(p, a).tap_step}));
    taps *= met;
    if (a + 1 < p.spatial()) lines *= met;
  }
  const double pixels = real(t.pixels), terms = real(t.span * g.depth()), products = real(g.depth() * t.vec);
  // Loads and conversions of a pixel's terms; dp4a and products of integers take two slots, and so does a conversion from f16.
  const double loads = t.load == 0 ? 4 * terms : terms / real(t.load);
  const double converted = g.words                 ? (t.load == 0 ? 3 : 0)
                           : integers              ? 3
                           : p.input == DType::f32 ? 0
                           : p.input == DType::f16 ? 2
                                                   : 1;
  const double wide = std::min(16.0 / real(bytes(weight_type(r, g), 1)), real(largest_power(t.vec)));
  const double of_tap = pixels * (6 + loads + terms * converted) + products / wide + products * pixels * (integers ? 2 : 1);
  const double instructions =
      taps * of_tap + lines * (10 + 8 * pixels) + 40 + 25 * pixels + pixels * real(t.vec) * (integers ? 14 : 8);
  const double shared = g.last ? real(t.lanes) / 32 : 1.0 / 32;  // of a warp's weights; lanes of one column read the same
  const double bytes_of_tap = pixels * terms * real(g.unit() * g.element) + products * real(bytes(weight_type(r, g), 1)) * shared;
  const double columns = real(p.outputs() / t.vec), rows = real(elements(p.y) / p.outputs());
  const double used = g.last ? columns / (std::ceil(columns / real(t.lanes)) * real(t.lanes)) : 1;
  const double all = std::ceil(rows / pixels) * columns / used;
  const device::cuda::DeviceInfo& i = r.gpu->info;
  const double clocks = real(std::max(1, i.multiprocessors)) * i.clock_mhz,
               filled = std::min(1.0, all / (512 * real(std::max(1, i.multiprocessors))));
  constexpr double issued = 128 * 0.55, cached = 128 * 0.6;  // a clock and multiprocessor: instructions of lanes, bytes
  const double busy = all * std::max(instructions / issued, taps * bytes_of_tap / cached) / clocks / std::max(filled, 1e-3);
  // Loads of one step wait for each other's addresses alone, steps for the products of those before.
  constexpr double of_step = 0.1;
  const double steps = lines * std::ceil(taps / lines / real(t.unroll)) * std::ceil(real(g.depth()) / real(t.chunk));
  return std::max(gpu_estimate_us(*r.gpu, moved), gpu_estimate_us(*r.gpu, 0) + busy) + of_step * steps;
}

}  // namespace

void offer_grouped_cuda(const SharedRequest& shared, Offer& offer) {
  constexpr size_t most_candidates = 6;
  const GpuRequest& r = *shared;
  const Problem& p = r.problem;
  if (p.group == 1 && !p.transposed) return;  // not what this is for
  // A channel a group has kernels that slide over a row's pixels; several filters a channel share what this one loads.
  if (p.group == p.outputs() &&
      std::ranges::any_of(offer.candidates, [](const Candidate& c) { return c.config.starts_with("depthwise"); }))
    return;
  if (const auto why = rejects(r)) return offer.refuse("cuda", why->at("grouped"));
  const Group g(r);
  const double moved = r.moved_bytes();
  std::vector<std::pair<double, Tile>> ranked;
  for (const Tile& t : tiles(r, g)) ranked.emplace_back(estimate_us(r, g, t, moved), t);
  std::ranges::stable_sort(ranked, {}, &std::pair<double, Tile>::first);
  if (ranked.size() > most_candidates) ranked.resize(most_candidates);
  for (const auto& [us, t] : ranked)
    offer.candidates.push_back(
        {"cuda", fmt::format("grouped v{} p{} n{} l{}", t.vec, t.pixels, t.span, t.lanes), us,
         [shared, g, t = t, name = offer.problem] { return std::make_unique<GroupedKernel>(request(*shared, g), g, t, name); }});
}

}  // namespace smelt::ops::conv
