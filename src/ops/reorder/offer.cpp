// ai.smelt's Reorder, the same tensor in another layout or with other strides, and its tactics.
#include "ops/reorder/offer.h"

#include "ops/reorder/family.h"

namespace smelt::ops {
namespace {

bool is_reorder(const Node& n) { return n.is("Reorder", smelt_domain); }

constexpr OperatorTactics operators[] = {
    {is_reorder, offer_reorder_cpu, offer_reorder_cuda},
};

}  // namespace

constinit const TacticFamily reorder_family{operators};

}  // namespace smelt::ops
