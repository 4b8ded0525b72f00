// LinearAttention (com.microsoft): a state [keys' size, values' size] of each head that every step decays, adds to and reads.
#pragma once

#include "ops/core/facts.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

struct LinearHeads {
  int64_t queries, keys, values;  // heads
  int64_t key_size, value_size;
};

enum LinearInput : size_t { linear_query, linear_key, linear_value, linear_past, linear_decay, linear_beta };

/// Throws Error where the shapes of query, key and value do not divide among the node's heads.
LinearHeads linear_heads(const Node& node, const Shape& q, const Shape& k, const Shape& v);

/// The node's scale, or what stands for it.
float linear_scale(const Node& node, const LinearHeads& h);

std::span<const OpRow> linear_attention_ops();
void offer_linear_attention_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_linear.cpp

}  // namespace smelt::ops
