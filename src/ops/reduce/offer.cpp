// The reductions, what works along one axis, and their tactics.
#include "ops/reduce/offer.h"

#include "ops/reduce/cuda_reduce.h"
#include "ops/reduce/family.h"

namespace smelt::ops {
namespace {

bool is_scan(const Node& n) { return n.is("CumSum") || n.is("CumProd"); }
bool is_hardmax(const Node& n) { return n.is("Hardmax"); }

bool is_arg(const Node& n) { return n.is("ArgMax") || n.is("ArgMin"); }
bool is_top_k(const Node& n) { return n.is("TopK"); }

void offer_reduce_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<ReduceForm> form = reduce_form(b);
  if (!form) return offer.refuse("cuda", form.refusal());
  offer_folds_cuda(b, *form, *machine.gpu, offer);
}

constexpr OperatorTactics operators[] = {
    {is_reduction, offer_reduce_cpu, offer_reduce_cuda},
    {is_arg, offer_arg_cpu, nullptr},
    {is_top_k, offer_top_k_cpu, nullptr},
    {is_scan, offer_scan_cpu, offer_scan_cuda},
    {is_hardmax, offer_hardmax_cpu, offer_hardmax_cuda},
};

}  // namespace

constinit const TacticFamily reduce_family{operators};

}  // namespace smelt::ops
