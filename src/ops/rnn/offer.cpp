// The recurrent networks' operators and their tactics.
#include "ops/rnn/offer.h"

#include "ops/rnn/family.h"

namespace smelt::ops {
namespace {

bool is_recurrent(const Node& n) { return n.is("RNN") || n.is("GRU") || n.is("LSTM"); }
bool is_quantized(const Node& n) { return n.is("DynamicQuantizeLSTM", microsoft_domain); }

constexpr OperatorTactics operators[] = {
    {is_recurrent, offer_recurrent_cpu, offer_recurrent_cuda},
    {is_quantized, offer_recurrent_cpu, offer_quantized_lstm_cuda},
};

}  // namespace

constinit const TacticFamily rnn_family{operators};

}  // namespace smelt::ops
