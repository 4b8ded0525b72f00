// Softmax, the losses on it, and their tactics.
#include "ops/softmax/offer.h"

#include "ops/softmax/family.h"

namespace smelt::ops {
namespace {

bool is_softmax(const Node& n) { return n.is("Softmax") || n.is("LogSoftmax"); }
bool is_loss(const Node& n) { return n.is("NegativeLogLikelihoodLoss") || n.is("SoftmaxCrossEntropyLoss"); }

void offer_softmax_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  offer_softmax_rows(b, machine, offer);
  offer_softmax_onednn(b, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_softmax, offer_softmax_cpu, offer_softmax_cuda},
    {is_loss, nullptr, offer_loss_cuda},
};

}  // namespace

constinit const TacticFamily softmax_family{operators};

}  // namespace smelt::ops
