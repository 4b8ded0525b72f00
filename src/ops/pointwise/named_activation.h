// Activation functions chosen by name: those of RNN, GRU and LSTM, and of ONNX Runtime's FusedConv and FusedGemm.
#pragma once

#include <string_view>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// A function of one variable with up to two parameters.
struct Activation {
  double (*f)(double v, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  std::string_view name;  // ONNX's
  double operator()(double v) const { return f(v, alpha, beta); }
};

/// By ONNX's name ("Tanh", "HardSigmoid", "Clip"; case does not matter), with ONNX's default parameters. Throws for an unknown
/// name.
Activation activation(std::string_view name);

/// Attribute "activation" of a Fused node with its parameters ("activation_params", or activation_alpha, activation_beta); the
/// identity when absent.
Activation fused_activation(const Node& node);

/// Attributes activations, activation_alpha and activation_beta of a recurrent node: `otherwise` is the list without them,
/// repeated for each of `directions`.
std::vector<Activation> recurrent_activations(const Node& node, const std::vector<std::string>& otherwise, int64_t directions);

}  // namespace smelt::ops
