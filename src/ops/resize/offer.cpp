// Resizing's operators and their tactics.
#include "ops/resize/offer.h"

#include <algorithm>

#include "ops/core/axis_table.h"
#include "ops/resize/family.h"

namespace smelt::ops {

Result<std::vector<ResizeAxis>> known_resize_axes(const BoundNode& b) {
  const bool upsample = b.node->op == "Upsample";
  const Tensor* parameters[3] = {};  // roi, scales, sizes
  for (size_t i = 0; i < 3; ++i) {
    const size_t input = upsample ? (i == 1 ? 1 : b.inputs.size()) : i + 1;
    if (!b.has(input) || elements(b.inputs[input].shape) == 0) continue;
    if (i == 0 && resize_transformation(*b.node) != "tf_crop_and_resize") continue;  // nothing else reads the region of interest
    if (!b.constant(input)) return refuse(Reason::not_constant, "its scales or sizes are computed");
    parameters[i] = b.constant(input);
  }
  const Node& node = *b.node;
  if (upsample && node.has("scales") && !parameters[1]) return refuse(Reason::wrong_attribute, "scales as an attribute");
  return resize_axes(node, b.inputs[0].shape, parameters[0], parameters[1], parameters[2]);
}

Result<PaddedAxes> nearest_axes(const BoundNode& b) {
  const Node& n = *b.node;
  const auto resized = known_resize_axes(b);
  if (!resized) return resized.refusal();
  const std::string transformation = resize_transformation(n);
  const std::string mode = n.get_string("nearest_mode", n.op == "Upsample" ? "floor" : "round_prefer_floor");
  PaddedAxes p{axes_of(b.inputs[0], b.outputs[0]), Tensor::scalar(n.get_float("extrapolation_value", 0)).cast(b.inputs[0].type),
               false};
  for (size_t a = 0; a < p.axes.size(); ++a) {
    const ResizeAxis& r = (*resized)[a];
    check_axis_table(r.out);
    std::vector<int64_t> places;
    bool itself = r.in == r.out;
    for (int64_t o = 0; o < r.out; ++o) {
      const double at = resize_coordinate(r, transformation, o);
      const bool outside = transformation == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(r.in - 1));
      places.push_back(outside ? -1 : std::clamp<int64_t>(nearest_place(at, mode), 0, r.in - 1));
      itself = itself && places.back() == o;
    }
    if (!itself) p.axes[a].places = std::move(places);
  }
  return p;
}

namespace {

bool is_resize(const Node& n) { return n.is("Resize") || n.is("Upsample"); }
bool is_grid_sample(const Node& n) { return n.is("GridSample"); }
bool is_affine_grid(const Node& n) { return n.is("AffineGrid"); }

void offer_resize_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  for (const OfferTactics offer_tactic : cpu_resize_tactics) offer_tactic(b, machine, offer);
}

void offer_resize_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->get_string("mode", "nearest") == "nearest")
    offer_nearest_cuda(b, machine, offer);
  else
    offer_interpolation_cuda(b, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {.handles = is_resize, .cpu = offer_resize_cpu, .cuda = offer_resize_cuda, .by_float_inputs = true},
    {.handles = is_grid_sample, .cpu = offer_grid_sample_cpu, .cuda = offer_grid_sample_cuda},
    {.handles = is_affine_grid, .cpu = offer_affine_grid_cpu, .cuda = offer_affine_grid_cuda},
};

}  // namespace

constinit const TacticFamily resize_family{operators};

}  // namespace smelt::ops
