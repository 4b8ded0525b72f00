// Pad, CenterCropPad, nearest Resize and Upsample on a GPU: places axis by axis.
#include <algorithm>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/cuda_axes.h"
#include "ops/movement/pad.h"
#include "ops/resize/cuda_resize.h"

namespace smelt::ops {
namespace {

const Tensor* known(const BoundNode& b, size_t i) {
  return i < b.inputs.size() && b.inputs[i].constant.valid() ? &b.inputs[i].constant : nullptr;
}
bool given(const BoundNode& b, size_t i) { return i < b.inputs.size() && b.inputs[i].type != DType::undefined; }

std::vector<std::byte> element_of(const Tensor& t) {
  const auto* p = static_cast<const std::byte*>(t.raw());
  return {p, p + element_bytes(t.type())};
}

/// Each index of an axis less what lies before it, or where `mode` says; -1 outside in mode constant.
std::vector<int64_t> padded(int64_t before, int64_t extent, int64_t result, const std::string& mode) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < result; ++i) {
    const int64_t at = i - before;
    places.push_back(mode != "constant" ? pad_source(mode, at, extent) : at < 0 || at >= extent ? -1 : at);
  }
  return places;
}

void offer_padded(const BoundNode& b, const Shape& before, const std::string& mode, std::vector<std::byte> fill, const Gpu& gpu,
                  Offer& offer) {
  const Shape &x = b.inputs[0].shape, &y = b.outputs[0].shape;
  std::vector<MappedAxis> axes = axes_of(b.inputs[0], b.outputs[0]);
  for (size_t a = 0; a < x.size(); ++a)
    if (before[a] != 0 || x[a] != y[a]) axes[a].places = padded(before[a], x[a], y[a], mode);
  offer_by_axes(std::move(axes), b, std::move(fill), "pad", gpu, offer);
}

void offer_pad(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  const Node& n = *b.node;
  const BoundTensor& x = b.inputs[0];
  if ((given(b, 1) && !known(b, 1)) || (given(b, 3) && !known(b, 3)))
    return offer.rejected.push_back({"cuda", "its pads are computed"});
  if (given(b, 2) && !known(b, 2)) return offer.rejected.push_back({"cuda", "its value is computed"});
  const std::string mode = n.get_string("mode", "constant");
  if (mode != "constant" && elements(x.shape) == 0) return offer.rejected.push_back({"cuda", "nothing to pad with"});
  const std::vector<int64_t> listed = given(b, 1) ? known(b, 1)->to_ints() : n.get_ints("pads");
  const Pads p = pads_of(listed, given(b, 3) ? std::optional(known(b, 3)->to_ints()) : std::nullopt, x.shape.size());
  std::vector<std::byte> fill;
  if (mode == "constant" && given(b, 2))
    fill = element_of(*known(b, 2));
  else if (n.has("value"))
    fill = element_of(Tensor::scalar<double>(n.get_float("value", 0)).cast(x.type));
  offer_padded(b, p.before, mode, std::move(fill), gpu, offer);
}

void offer_center(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  Shape before;
  for (size_t a = 0; a < b.inputs[0].shape.size(); ++a) {
    const int64_t more = b.outputs[0].shape[a] - b.inputs[0].shape[a];
    before.push_back(more >= 0 ? more / 2 : -(-more / 2));
  }
  offer_padded(b, before, "constant", {}, gpu, offer);
}

}  // namespace

/// Tensors that exporters leave empty count as left out.
std::optional<std::vector<ResizeAxis>> known_resize_axes(const BoundNode& b, std::string& why) {
  const bool upsample = b.node->op == "Upsample";
  const Tensor* parameters[3] = {};  // roi, scales, sizes
  for (size_t i = 0; i < 3; ++i) {
    const size_t input = upsample ? (i == 1 ? 1 : b.inputs.size()) : i + 1;
    if (!given(b, input) || elements(b.inputs[input].shape) == 0) continue;
    if (!known(b, input)) return why = "its scales or sizes are computed", std::nullopt;
    parameters[i] = known(b, input);
  }
  Node node = *b.node;
  if (upsample && node.has("scales") && !parameters[1]) return why = "scales as an attribute", std::nullopt;
  return resize_axes(node, b.inputs[0].shape, parameters[0], parameters[1], parameters[2]);
}

bool gpu_pad_handles(const Node& n) {
  return n.is("Pad") || n.is("CenterCropPad") ||
         ((n.is("Resize") || n.is("Upsample")) && n.get_string("mode", "nearest") == "nearest");
}

void gpu_pad_offer(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  if (n.op == "Pad") return offer_pad(b, *machine.gpu, offer);
  if (n.op == "CenterCropPad") return offer_center(b, *machine.gpu, offer);
  std::string why;
  const auto resized = known_resize_axes(b, why);
  if (!resized) return offer.rejected.push_back({"cuda", why});
  const bool upsample = n.op == "Upsample";
  const std::string transformation = n.get_string("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel");
  const std::string mode = n.get_string("nearest_mode", upsample ? "floor" : "round_prefer_floor");
  std::vector<MappedAxis> axes = axes_of(b.inputs[0], b.outputs[0]);
  for (size_t a = 0; a < axes.size(); ++a) {
    const ResizeAxis& r = (*resized)[a];
    std::vector<int64_t> places;
    bool itself = r.in == r.out;
    for (int64_t o = 0; o < r.out; ++o) {
      const double at = resize_coordinate(r, transformation, o);
      const bool outside = transformation == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(r.in - 1));
      places.push_back(outside ? -1 : std::clamp<int64_t>(nearest_place(at, mode), 0, r.in - 1));
      itself = itself && places.back() == o;
    }
    if (!itself) axes[a].places = std::move(places);
  }
  const Tensor beyond = Tensor::scalar(n.get_float("extrapolation_value", 0)).cast(b.inputs[0].type);
  offer_by_axes(std::move(axes), b, element_of(beyond), "resize", *machine.gpu, offer);
}

}  // namespace smelt::ops
