// Softmax, the losses on it, and their tactics.
#include "ops/softmax/offer.h"

#include "ops/softmax/family.h"

namespace smelt::ops {
namespace {

bool is_softmax(const Node& n) { return n.is("Softmax") || n.is("LogSoftmax"); }
bool is_softmax_of_bytes(const Node& n) { return n.is("QLinearSoftmax", microsoft_domain); }
bool is_loss(const Node& n) { return n.is("NegativeLogLikelihoodLoss") || n.is("SoftmaxCrossEntropyLoss"); }

void offer_softmax_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  offer_softmax_rows(b, machine, offer);
  // Of a row that holds a NaN oneDNN makes zeros beside it. Whether a NaN shows must not depend on which kernel was faster.
  if (offer.candidates.empty())
    offer_softmax_onednn(b, machine, offer);
  else
    offer.refuse("onednn", Reason::not_exact, "beside a NaN or an infinity its results are 0, not NaN");
}

void offer_losses_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  b.node->op == "SoftmaxCrossEntropyLoss" ? offer_loss_cpu(b, machine, offer) : offer_nll_loss_cpu(b, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_softmax, offer_softmax_cpu, offer_softmax_cuda},
    {is_softmax_of_bytes, nullptr, offer_softmax_bytes_cuda},
    {is_loss, offer_losses_cpu, offer_loss_cuda},
};

}  // namespace

constinit const TacticFamily softmax_family{operators};

}  // namespace smelt::ops
