// The recurrent networks' operators and their tactics.
#include "ops/rnn/offer.h"

#include "ops/rnn/family.h"

namespace smelt::ops {
namespace {

bool is_recurrent(const Node& n) { return n.is("RNN") || n.is("GRU") || n.is("LSTM"); }

constexpr OperatorTactics operators[] = {
    {is_recurrent, nullptr, offer_recurrent_cuda},
};

}  // namespace

constinit const TacticFamily rnn_family{operators};

}  // namespace smelt::ops
