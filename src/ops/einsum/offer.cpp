// Einsum's tactics.
#include "ops/einsum/offer.h"

#include "ops/einsum/family.h"
#include "ops/einsum/inverse.h"

namespace smelt::ops {
namespace {

bool is_einsum(const Node& n) { return n.is("Einsum"); }
bool is_det(const Node& n) { return n.is("Det"); }
bool is_inverse(const Node& n) { return n.is("Inverse", microsoft_domain); }

constexpr OperatorTactics operators[] = {
    {is_einsum, offer_einsum_cpu, offer_einsum_cuda},
    {is_det, offer_det_cpu, nullptr},
    {is_inverse, offer_inverse_cpu, nullptr},
};

}  // namespace

constinit const TacticFamily einsum_family{operators};

}  // namespace smelt::ops
