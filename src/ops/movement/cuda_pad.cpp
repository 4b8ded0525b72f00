// Pad and CenterCropPad on a GPU: places axis by axis.
#include <algorithm>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/cuda_axes.h"
#include "ops/movement/offer.h"
#include "ops/movement/pad.h"

namespace smelt::ops {
namespace {

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
  if ((b.has(1) && !b.constant(1)) || (b.has(3) && !b.constant(3)))
    return offer.refuse("cuda", Reason::not_constant, "its pads are computed");
  if (b.has(2) && !b.constant(2)) return offer.refuse("cuda", Reason::not_constant, "its value is computed");
  const std::string mode = n.get_string("mode", "constant");
  if (mode != "constant" && elements(x.shape) == 0) return offer.refuse("cuda", Reason::wrong_shape, "nothing to pad with");
  const std::vector<int64_t> listed = b.has(1) ? b.constant(1)->to_ints() : n.get_ints("pads");
  const Pads p = pads_of(listed, b.has(3) ? std::optional(b.constant(3)->to_ints()) : std::nullopt, x.shape.size());
  std::vector<std::byte> fill;
  if (mode == "constant" && b.has(2))
    fill = element_of(*b.constant(2));
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

void offer_pad_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->op == "Pad") return offer_pad(b, *machine.gpu, offer);
  offer_center(b, *machine.gpu, offer);
}

}  // namespace smelt::ops
