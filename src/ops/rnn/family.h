// Recurrent networks: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> rnn_ops();  // RNN, GRU, LSTM, DynamicQuantizeLSTM

extern const TacticFamily rnn_family;  // offer.cpp

}  // namespace smelt::ops
