// MoE and QMoE (com.microsoft): what their reference and their kernel share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/facts.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// The inputs of a layer of all experts; of MoE there are no scales.
struct LayerInputs {
  size_t weights, scales, bias, zeros;
};
inline constexpr size_t no_input = 99;
inline constexpr LayerInputs float_layers[] = {{2, no_input, 3, no_input}, {4, no_input, 5, no_input}};
inline constexpr LayerInputs integer_layers[] = {{2, 3, 4, 11}, {5, 6, 7, 12}};

inline std::span<const LayerInputs> layers_of(const Node& n) {
  return n.op == "QMoE" ? std::span(integer_layers) : std::span(float_layers);
}

inline int64_t bits_of(const Node& n, size_t layer) {
  if (n.op != "QMoE") return 32;
  const int64_t own = n.get_int(layer == 0 ? "fc1_expert_weight_bits" : "fc2_expert_weight_bits", 0);
  return own != 0 ? own : n.get_int("expert_weight_bits", 4);
}

/// Bytes of so many numbers of `bits` bits.
inline int64_t packed_bytes(int64_t count, int64_t bits) { return (count * bits + 7) / 8; }
/// Number `i` of those that lie in bytes, the lowest bits first.
inline int packed_number(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t bit = i * bits;
  return (bytes[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
}

/// What stands between the layers.
struct ExpertActivation {
  explicit ExpertActivation(const Node& node)
      : type(node.get_string("activation_type", "relu")),
        alpha(node.get_float("activation_alpha", 1)),
        beta(node.get_float("activation_beta", 0)),
        limit(node.get_float("swiglu_limit", std::numeric_limits<float>::infinity())) {
    if (!(limit > 0)) limit = std::numeric_limits<float>::infinity();
  }
  bool gated() const { return type == "swiglu"; }

  std::string type;
  float alpha, beta, limit;

  float operator()(float x) const {
    if (type == "relu") return std::max(x, 0.0f);
    if (type == "gelu") return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    if (type == "silu") return x / (1 + std::exp(-x));
    return x;
  }
  /// Of a gate and what it lets through.
  float operator()(float gate, float x) const {
    gate = std::min(gate, limit);
    x = std::clamp(x, -limit, limit);
    return gate / (1 + std::exp(-alpha * gate)) * (x + beta);
  }
};

/// A token that an expert takes, and its share of the result.
struct Route {
  int64_t token;
  float weight;
};

struct Routes {
  std::vector<std::vector<Route>> of_experts;
  std::vector<std::pair<float, int64_t>> ordered;  // scratch memory: it stays, so that runs allocate nothing
};
/// The tokens of each expert, from the router's [tokens, experts]: of each row's softmax the k largest, or those over their sum.
void route_tokens(const Node& node, const float* router, int64_t tokens, int64_t experts, Routes& routes);

std::span<const OpRow> expert_ops();
namespace matmul {
void offer_experts(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_experts.cpp
}

}  // namespace smelt::ops
