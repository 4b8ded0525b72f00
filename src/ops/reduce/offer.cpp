// The reductions, what works along one axis, and their tactics.
#include "ops/reduce/offer.h"

#include "ops/reduce/cuda_reduce.h"
#include "ops/reduce/family.h"

namespace smelt::ops {
namespace {

bool is_scan(const Node& n) { return n.is("CumSum") || n.is("CumProd"); }
bool is_hardmax(const Node& n) { return n.is("Hardmax"); }

void offer_reduce_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  std::string why;
  if (const auto form = reduce_form(b, why))
    offer_folds_cuda(b, *form, *machine.gpu, offer);
  else
    offer.rejected.push_back({"cuda", why});
}

constexpr OperatorTactics operators[] = {
    {is_reduction, offer_reduce_cpu, offer_reduce_cuda},
    {is_scan, nullptr, offer_scan_cuda},
    {is_hardmax, nullptr, offer_hardmax_cuda},
};

}  // namespace

constinit const TacticFamily reduce_family{operators};

}  // namespace smelt::ops
