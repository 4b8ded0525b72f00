// Recurrent networks: operators and tactics.
#pragma once

#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpDef> rnn_ops();  // RNN, GRU, LSTM

extern const TacticFamily rnn_family;  // offer.cpp

}  // namespace smelt::ops
