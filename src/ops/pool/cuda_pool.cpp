// Poolings on a GPU: over windows (src/kernels/pool/window.cuh) and over whole planes (plane.cuh). Specialised on the type, the
// window's taps and the width of access; extents, strides, pads and dilations are arguments.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/pool/plane.h"
#include "kernels/pool/window.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"
#include "ops/pool/cuda_pool.h"
#include "ops/pool/offer.h"

namespace smelt::ops {
namespace pool {
namespace {

constexpr unsigned threads = 256;
constexpr int64_t most = int64_t{1} << 31;  // Divider's numbers

/// [N, C, spatial…] with spatial axes of `fill` in front, so that there are three.
Shape five(const Shape& s, int64_t fill) {
  Shape all(s.begin(), s.begin() + 2);
  all.resize(7 - s.size(), fill);
  all.insert(all.end(), s.begin() + 2, s.end());
  return all;
}
/// One entry a spatial axis, three of them.
Shape three(const Shape& s, int64_t fill) {
  Shape all(3 - s.size(), fill);
  all.insert(all.end(), s.begin(), s.end());
  return all;
}

template <class T> void copy(T* to, const Shape& from) {
  std::ranges::transform(from, to, [](int64_t v) { return static_cast<T>(v); });
}

/// Elements of the widest access to the channels of a pixel, or to the pixels of a plane.
int64_t widest(const BoundTensor& t, bool channels, int64_t extent) {
  const Shape strides = memory_strides(t);
  Shape others;
  for (size_t a = 0; a < strides.size(); ++a)
    if (t.shape[a] > 1 && (channels ? a != 1 : a < 2)) others.push_back(strides[a]);
  return widest_access(std::move(others), extent, bytes(t.type, 1), t.alignment);
}

class WindowKernel final : public CompiledKernel {
 public:
  WindowKernel(const Pooling& p, int64_t vec, const Gpu& gpu, const std::string& name)
      : CompiledKernel(gpu, {name, source(p, vec), {}}, "pool"), indexed_(p.indexed) {
    const Shape in = five(p.x.shape, 1), out = five(p.y.shape, 1);
    const std::array<int64_t, 4> inner =
        p.channels_last ? std::array{out[1] / vec, out[4], out[3], out[2]} : std::array{out[4], out[3], out[2], out[1]};
    int64_t chunks = out[0];
    for (size_t a = 0; a < 4; ++a) {
      args_.extents[a] = Divider(static_cast<uint32_t>(std::max<int64_t>(1, inner[a])));
      chunks *= inner[a];
    }
    args_.chunks = static_cast<uint32_t>(chunks);
    copy(args_.in, Shape(in.begin() + 2, in.end()));
    copy(args_.stride, p.window.stride);
    copy(args_.pad, p.window.pad_begin);
    copy(args_.pad_end, p.window.pad_end);
    copy(args_.dilation, p.window.dilation);
    copy(args_.from, five(memory_strides(p.x), 0));
    copy(args_.to, five(memory_strides(p.y), 0));
    copy(args_.index_to, strides(out));
    args_.plane = in[2] * in[3] * in[4];
    copy(args_.index_step, p.column_major ? Shape{1, in[2], in[2] * in[3]} : Shape{in[3] * in[4], in[4], 1});
  }

  void run(const Buffers& b) override {
    if (args_.chunks == 0) return;
    args_.x = b.inputs[0];
    args_.y = b.outputs[0];
    if (indexed_) args_.index = static_cast<int64_t*>(b.outputs[1]);
    Arguments arguments;
    arguments.value(args_);
    launch(b, {.grid = {(int64_t{args_.chunks} + threads - 1) / threads}, .block = {threads, 1, 1}}, arguments);
  }

 private:
  static std::string source(const Pooling& p, int64_t vec) {
    const Shape& taps = p.window.kernel;
    const KernelEntry pool{"pool", std::to_string(threads), fmt::format("PoolWindowArgs<{}>", expr::cuda_type(p.type)),
                           fmt::format("pool_windows<Pool::{}, {}, {}, {}, {}, {}, {}>", p.kind, p.channels_last, p.indexed,
                                       taps[0], taps[1], taps[2], vec)};
    return "#include \"pool/window.cuh\"\n" + entry_source(pool, sizeof(kernels::PoolWindowArgs<void>));
  }
  bool indexed_;
  kernels::PoolWindowArgs<void> args_{};
};

struct PlaneSplit {
  int64_t vec = 1, outs = 1, parts = 1;
};

class PlaneKernel final : public CompiledKernel {
 public:
  PlaneKernel(const Pooling& p, const PlaneSplit& s, const Gpu& gpu, const std::string& name)
      : CompiledKernel(gpu, {name, source(p, s), {}}, "pool"), split_(s) {
    const Shape from = memory_strides(p.x), to = memory_strides(p.y);
    const int64_t pixels = elements(spatial_of(p.x.shape)), channels = p.x.shape[1] / (p.channels_last ? s.vec : 1);
    args_.outputs = static_cast<uint32_t>(p.x.shape[0] * channels);
    args_.channels = Divider(static_cast<uint32_t>(std::max<int64_t>(1, channels)));
    args_.pixels = static_cast<int32_t>(pixels / (p.channels_last ? 1 : s.vec));
    args_.elements = static_cast<int32_t>(pixels);
    copy(args_.from, {from[0], from[1], pixel_stride(p.x)});
    copy(args_.to, {to[0], to[1]});
  }

  /// Elements from one pixel to the next in row-major order; 0 where there is no such number.
  static int64_t pixel_stride(const BoundTensor& t) {
    const Views v = merged(spatial_of(t.shape), {spatial_of(memory_strides(t))}, 0);
    return v.extents.size() == 1 ? std::max<int64_t>(1, v.strides[0][0]) : 0;
  }

  void run(const Buffers& b) override {
    if (args_.outputs == 0) return;
    args_.x = b.inputs[0];
    args_.y = b.outputs[0];
    Arguments arguments;
    arguments.value(args_);
    const auto outs = static_cast<unsigned>(split_.outs), parts = static_cast<unsigned>(split_.parts);
    launch(b, {.grid = {(int64_t{args_.outputs} + outs - 1) / outs}, .block = {outs * parts, 1, 1}}, arguments);
  }

 private:
  static std::string source(const Pooling& p, const PlaneSplit& s) {
    const KernelEntry pool{"pool", std::to_string(s.outs * s.parts), fmt::format("PoolPlaneArgs<{}>", expr::cuda_type(p.type)),
                           fmt::format("pool_planes<Pool::{}, {}, {}, {}, {}>", p.kind, p.channels_last, s.vec, s.outs, s.parts)};
    return "#include \"pool/plane.cuh\"\n" + entry_source(pool, sizeof(kernels::PoolPlaneArgs<void>));
  }
  PlaneSplit split_;
  kernels::PoolPlaneArgs<void> args_{};
};

/// The node as a Pooling.
Result<Pooling> pooling(const BoundNode& b) {
  const Node& node = *b.node;
  Pooling p;
  p.x = b.inputs[0];
  p.y = b.outputs[0];
  p.type = p.x.type;
  const size_t axes = p.x.shape.size() < 3 ? 0 : p.x.shape.size() - 2;
  const bool max = node.op == "MaxPool" || node.op == "GlobalMaxPool", byte = p.type == DType::i8 || p.type == DType::u8;
  if (axes < 1 || axes > 3)
    return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 to 3", static_cast<int64_t>(p.x.shape.size()) - 2);
  if (!(p.type == DType::f16 || p.type == DType::bf16 || p.type == DType::f32 || p.type == DType::f64) && !(max && byte))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(p.type));
  if (p.y.type != p.type) return refuse(Reason::wrong_type, "{} pooled to {}", smelt::name(p.type), smelt::name(p.y.type));
  const Shape grid = spatial_of(p.x.shape);
  p.kind = max ? "max" : "mean_inside";
  if (node.op == "MaxPool" || node.op == "AveragePool") {
    p.window = window_of(node, kernel_shape(node, axes), grid);
    if (!max && node.get_int("count_include_pad", 0) != 0) p.kind = "mean";
    p.indexed = b.outputs.size() > 1 && b.outputs[1].type != DType::undefined;
    if (p.indexed) p.index = b.outputs[1];
    p.column_major = node.get_int("storage_order", 0) != 0;
  } else {
    p.window = {grid, Shape(axes, 1), Shape(axes, 1), Shape(axes, 0), Shape(axes, 0)};
  }
  const Shape zeros(axes, 0);
  p.whole = p.window.kernel == grid && p.window.pad_begin == zeros && p.window.pad_end == zeros &&
            elements(spatial_of(p.y.shape)) == 1 && p.window.dilation == Shape(axes, 1);
  p.channels_last = !p.indexed && is_channels_last(p.x) && is_channels_last(p.y) && p.x.shape[1] > 1;
  p.window = {three(p.window.kernel, 1), three(p.window.stride, 1), three(p.window.dilation, 1), three(p.window.pad_begin, 0),
              three(p.window.pad_end, 0)};
  if (elements(p.x.shape) >= most || elements(p.y.shape) >= most)
    return refuse(Reason::too_large, "{} elements, expected less than 2^31", std::max(elements(p.x.shape), elements(p.y.shape)));
  if (p.indexed && !is_dense(p.index)) return refuse(Reason::wrong_layout, "indices into a slice of another tensor");
  return p;
}

void offer_windows(const Pooling& p, const Gpu& gpu, double estimate, Offer& offer) {
  const int64_t most_wide = p.channels_last ? std::min(widest(p.x, true, p.x.shape[1]), widest(p.y, true, p.x.shape[1])) : 1;
  for (int64_t vec = most_wide; vec >= 1; vec /= 2) {
    // Narrow accesses make more threads, which small images may want.
    const int64_t times = most_wide / vec;
    const double worse = 1 + 0.1 * static_cast<double>(times - 1);
    offer.candidates.push_back(
        {"cuda", fmt::format("window v{}", vec), estimate * worse,
         [p, vec, &gpu, problem = offer.problem] { return std::make_unique<WindowKernel>(p, vec, gpu, problem); }});
    if (vec * 4 <= most_wide) break;
  }
}

void offer_planes(const Pooling& p, const Gpu& gpu, double estimate, Offer& offer) {
  if (PlaneKernel::pixel_stride(p.x) == 0) return;
  const int64_t pixels = elements(spatial_of(p.x.shape)), outputs = p.x.shape[0] * p.x.shape[1];
  PlaneSplit s;
  if (p.channels_last) {
    s.vec = std::min(widest(p.x, true, p.x.shape[1]), widest(p.y, true, p.x.shape[1]));
    for (const int64_t outs : {4, 8, 16, 32}) {
      s.outs = outs;
      s.parts = threads / outs;
      const double idle = static_cast<double>(std::max<int64_t>(s.parts, pixels)) / static_cast<double>(pixels);
      const double few =
          std::max(1.0, 2.0 * gpu.info.multiprocessors * static_cast<double>(s.vec * outs) / static_cast<double>(outputs));
      offer.candidates.push_back(
          {"cuda", fmt::format("plane v{} o{} p{}", s.vec, s.outs, s.parts), estimate * (1 + 0.05 * idle + 0.02 * few),
           [p, s, &gpu, problem = offer.problem] { return std::make_unique<PlaneKernel>(p, s, gpu, problem); }});
    }
    return;
  }
  s.vec = PlaneKernel::pixel_stride(p.x) == 1 ? widest(p.x, false, pixels) : 1;
  for (const int64_t parts : {8, 32, 256}) {
    s.parts = parts;
    s.outs = threads / parts;
    const double rounds = static_cast<double>(pixels) / static_cast<double>(s.vec * parts);
    offer.candidates.push_back({"cuda", fmt::format("plane v{} o{} p{}", s.vec, s.outs, s.parts),
                                estimate * (1 + 0.05 * std::max(rounds / 4, 1 / rounds)), [p, s, &gpu, problem = offer.problem] {
                                  return std::make_unique<PlaneKernel>(p, s, gpu, problem);
                                }});
  }
}

}  // namespace

void offer_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->op == "ReduceMean" || b.node->op == "Reduce") return;  // the reductions' own kernels know every set of axes
  const auto p = pooling(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  const Window& w = p->window;
  Key key(b.node->op);
  key.field(p->kind).field(p->x).to(p->y).field("k").option("", w.kernel).option("s", w.stride).option("p", w.pad_begin);
  key.option("-", w.pad_end).option("d", w.dilation);
  key.flag(":indices", p->indexed).flag(" by columns", p->indexed && p->column_major);
  offer.problem = key.begins(";x", p->x).begins(";y", p->y).text();
  const double moved = static_cast<double>((elements(p->x.shape) + elements(p->y.shape)) * bytes(p->type, 1));
  const double estimate = gpu_estimate_us(*machine.gpu, moved);
  if (p->whole && !p->indexed) offer_planes(*p, *machine.gpu, estimate, offer);
  if (offer.candidates.empty()) offer_windows(*p, *machine.gpu, estimate, offer);
  offer_cudnn(*p, *machine.gpu, estimate, offer);
}

}  // namespace pool

}  // namespace smelt::ops
