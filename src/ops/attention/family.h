// Attention and rotary embedding: operators and tactics.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/family.h"

namespace smelt::ops {

std::span<const OpRow> attention_ops();        // Attention, RotaryEmbedding
std::span<const OpRow> fused_attention_ops();  // ai.smelt's Attention
std::span<const OpRow> fused_rotary_ops();     // ai.smelt's RotaryEmbedding

extern const TacticFamily attention_family;  // offer.cpp

}  // namespace smelt::ops
