// The operators of gathering and scattering, and their tactics.
#include "ops/gather/offer.h"

#include "ops/gather/family.h"

namespace smelt::ops {
namespace {

bool is_gather(const Node& n) { return n.is("Gather"); }
bool is_indexed_gather(const Node& n) { return n.is("GatherElements") || n.is("GatherND") || n.is("TensorScatter"); }
bool is_scatter(const Node& n) { return n.is("ScatterElements") || n.is("Scatter") || n.is("ScatterND"); }

constexpr OperatorTactics operators[] = {
    {is_gather, offer_gather_cpu, offer_gather_cuda},
    {is_indexed_gather, offer_indexed_gather_cpu, offer_gather_cuda},
    {is_scatter, offer_scatter_cpu, offer_scatter_cuda},
};

}  // namespace

constinit const TacticFamily gather_family{operators};

}  // namespace smelt::ops
