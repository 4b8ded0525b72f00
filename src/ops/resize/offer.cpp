// Resizing's operators and their tactics.
#include "ops/resize/offer.h"

#include "ops/resize/family.h"

namespace smelt::ops {
namespace {

bool is_resize(const Node& n) { return n.is("Resize") || n.is("Upsample"); }
bool is_grid_sample(const Node& n) { return n.is("GridSample"); }

void offer_resize_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->get_string("mode", "nearest") == "nearest")
    offer_nearest_cuda(b, machine, offer);
  else
    offer_interpolation_cuda(b, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_resize, offer_nearest_cpu, offer_resize_cuda},
    {is_grid_sample, nullptr, offer_grid_sample_cuda},
};

}  // namespace

constinit const TacticFamily resize_family{operators};

}  // namespace smelt::ops
