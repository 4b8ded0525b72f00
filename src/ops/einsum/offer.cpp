// Einsum's tactics.
#include "ops/einsum/offer.h"

#include "ops/einsum/family.h"

namespace smelt::ops {
namespace {

bool is_einsum(const Node& n) { return n.is("Einsum"); }
bool is_det(const Node& n) { return n.is("Det"); }

constexpr OperatorTactics operators[] = {
    {is_einsum, offer_einsum_cpu, offer_einsum_cuda},
    {is_det, offer_det_cpu, nullptr},
};

}  // namespace

constinit const TacticFamily einsum_family{operators};

}  // namespace smelt::ops
