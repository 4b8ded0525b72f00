// Nearest Resize and Upsample on a GPU: places axis by axis.
#include <algorithm>

#include "base/error.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/cuda_axes.h"
#include "ops/resize/offer.h"

namespace smelt::ops {

void offer_nearest_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const auto resized = known_resize_axes(b);
  if (!resized) return offer.refuse("cuda", resized.refusal());
  const std::string transformation = resize_transformation(n);
  const std::string mode = n.get_string("nearest_mode", n.op == "Upsample" ? "floor" : "round_prefer_floor");
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
