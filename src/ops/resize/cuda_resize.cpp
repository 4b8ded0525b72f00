// Linear and cubic Resize and Upsample on a GPU: each element is a sum over the taps of its places, along all resized axes at
// once. A thread does one element, or 16 bytes of neighbours along axes that keep their places (a channels-last image's
// channels).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/axis_table.h"
#include "ops/core/loops.h"
#include "ops/cuda/source.h"
#include "ops/movement/cuda_axes.h"
#include "ops/resize/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

/// An axis's taps for each place of y, as many for all: after its own, ones of weight 0. A first one of -1: outside.
struct TapTable {
  int64_t most = 1;
  std::vector<int64_t> places;
  std::vector<double> weights;
};

TapTable tap_table(const Node& n, const ResizeAxis& axis, const std::string& transformation) {
  check_axis_table(axis.out, 128);  // taps in lists of their own, then side by side
  std::vector<std::vector<ResizeTap>> taps;
  TapTable t;
  for (int64_t o = 0; o < axis.out; ++o) {
    const double at = resize_coordinate(axis, transformation, o);
    const bool outside = transformation == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(axis.in - 1));
    taps.push_back(outside ? std::vector<ResizeTap>{{-1, 0}} : resize_taps(n, axis, at));
    t.most = std::max<int64_t>(t.most, static_cast<int64_t>(taps.back().size()));
  }
  for (std::vector<ResizeTap>& place : taps) {
    place.resize(static_cast<size_t>(t.most));
    for (const ResizeTap& tap : place) t.places.push_back(tap.place), t.weights.push_back(tap.weight);
  }
  return t;
}

struct Interpolation {
  MergedAxes axes;              // those with places: taps
  std::vector<int64_t> most;    // of each axis; 0: it keeps its places
  std::vector<double> weights;  // in the order of the axes' places
  DType type = DType::f32;
  int64_t vec = 1;
  double beyond = 0;
  double reads = 1;  // of x, for one element

  bool in_double() const { return type != DType::f32 && type != DType::f16 && type != DType::bf16; }
  int64_t chunks() const { return axes.rows() * ((axes.width + vec - 1) / vec); }
};

/// Of src/kernels/resize/interpolate.cuh.
KernelEntry entry_of(const Interpolation& p) {
  const std::string_view sum = p.in_double() ? "double" : "float";
  const std::vector<int64_t> taps(p.most.rbegin(), p.most.rend());  // innermost first
  const std::string config = config_source("InterpolateConfig", {{"vec", p.vec}, {"threads", block}});
  return {"resize", std::to_string(block), fmt::format("InterpolateArgs<{}, {}, {}>", expr::cuda_type(p.type), sum, taps.size()),
          fmt::format("Interpolate<{}, {}>::run", config, fmt::join(taps, ", "))};
}

LaunchPlan plan_of(const Interpolation& p) {
  LaunchPlan plan("resize", "#include \"resize/interpolate.cuh\"\n");
  std::vector<int64_t> places;
  const std::vector<std::byte> axes = axes_argument(p.axes.axes, places);
  const auto both = [&](auto sum) {
    using Sum = decltype(sum);
    const std::vector<Sum> weights(p.weights.begin(), p.weights.end());
    const BufferRef at = plan.table(places), with = plan.table(weights);
    const int64_t per_row = (p.axes.width + p.vec - 1) / p.vec;
    if (p.chunks() == 0) return;
    plan.launch(entry_of(p), blocks_of(p.chunks(), block))  // InterpolateArgs, member by member
        .input(0)
        .output(0)
        .at(at)
        .at(with)
        .value(static_cast<Sum>(p.beyond))
        .value(static_cast<uint32_t>(p.chunks()))
        .value(static_cast<uint32_t>(p.axes.width))
        .value(Divider(static_cast<uint32_t>(per_row)))
        .bytes(axes);
  };
  if (p.in_double())
    both(0.0);
  else
    both(0.f);
  return plan;
}

}  // namespace

void offer_interpolation_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const auto resized = known_resize_axes(b);
  if (!resized) return offer.refuse("cuda", resized.refusal());
  const bool real = x.type == DType::f32 || x.type == DType::f64 || x.type == DType::f16 || x.type == DType::bf16;
  if (!real && (!is_integer(x.type) || bits(x.type) < 8))
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(x.type));
  const std::string transformation = resize_transformation(n);
  std::vector<MappedAxis> axes = axes_of(x, y);
  std::vector<TapTable> tables(axes.size());
  Interpolation p;
  for (size_t a = 0; a < axes.size(); ++a) {
    const ResizeAxis& r = (*resized)[a];
    if (r.scale == 1 && r.in == r.out && transformation != "tf_crop_and_resize") continue;
    tables[a] = tap_table(n, r, transformation);
    axes[a].places = tables[a].places;
    axes[a].tag = static_cast<int>(a);
    p.reads *= static_cast<double>(tables[a].most);
  }
  p.axes = merged_axes(std::move(axes));
  for (const MappedAxis& a : p.axes.axes) p.most.push_back(a.tag < 0 ? 0 : tables[static_cast<size_t>(a.tag)].most);
  for (size_t a = p.axes.axes.size(); a-- > 0;) {  // in axes_argument's order
    if (p.most[a] == 0) continue;
    const std::vector<double>& weights = tables[static_cast<size_t>(p.axes.axes[a].tag)].weights;
    p.weights.insert(p.weights.end(), weights.begin(), weights.end());
  }
  p.type = x.type;
  p.beyond = n.get_float("extrapolation_value", 0);
  RowMove wide;
  wide.bytes = bytes(x.type, 1), wide.width = p.axes.width;
  wide.widen(std::min(x.alignment, y.alignment), p.axes.unit());
  p.vec = wide.vec;
  if (p.chunks() >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", elements(y.shape));
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(y)) * (1 + p.reads / 16);
  offer.candidates.push_back({"cuda", fmt::format("taps v{}", p.vec), gpu_estimate_us(*machine.gpu, moved),
                              [p, gpu = machine.gpu] { return launched(plan_of(p), *gpu); }});
}

}  // namespace smelt::ops
