#include "ops/pointwise/named_activation.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"

namespace smelt::ops {
namespace {

double sigmoid(double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); }

struct Row {
  std::string_view name;
  double (*f)(double, double, double);
  double alpha, beta;
  int parameters;  // how many of alpha and beta it takes
};

constexpr Row rows[] = {
    {"Relu", [](double v, double, double) { return v > 0    ? v
                                                   : v != v ? v
                                                            : 0.0; }, 0, 0, 0},
    {"Tanh", [](double v, double, double) { return std::tanh(v); }, 0, 0, 0},
    {"Sigmoid", [](double v, double, double) { return sigmoid(v); }, 0, 0, 0},
    {"Affine", [](double v, double a, double b) { return a * v + b; }, 1, 0, 2},
    {"LeakyRelu", [](double v, double a, double) { return v >= 0 ? v : a * v; }, 0.01f, 0, 1},
    {"ThresholdedRelu", [](double v, double a, double) { return v > a ? v : 0.0; }, 1, 0, 1},
    {"ScaledTanh", [](double v, double a, double b) { return a * std::tanh(b * v); }, 1, 1, 2},
    {"HardSigmoid", [](double v, double a, double b) { return std::clamp(a * v + b, 0.0, 1.0); }, 0.2f, 0.5, 2},
    {"Elu", [](double v, double a, double) { return v >= 0 ? v : a * std::expm1(v); }, 1, 0, 1},
    {"Softsign", [](double v, double, double) { return v / (1 + std::abs(v)); }, 0, 0, 0},
    {"Softplus", [](double v, double, double) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }, 0, 0, 0},
    {"Clip", [](double v, double low, double high) { return std::min(std::max(v, low), high); }, -3.402823466e38, 3.402823466e38,
     2},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

const Row& row(std::string_view name) {
  const auto it = std::ranges::find_if(rows, [&](const Row& r) { return same_name(r.name, name); });
  if (it == std::end(rows)) fail_unsupported("activation '{}' is not one of ONNX's", name);
  return *it;
}

}  // namespace

Activation activation(std::string_view name) {
  const Row& r = row(name);
  return {r.f, r.alpha, r.beta, r.name};
}

Activation fused_activation(const Node& node) {
  const std::string name = node.get_string("activation", "");
  if (name.empty()) return {[](double v, double, double) { return v; }, 0, 0};
  Activation a = activation(name);
  const std::vector<float> given = node.get_floats("activation_params");
  a.alpha = !given.empty() ? given[0] : node.get_float("activation_alpha", static_cast<float>(a.alpha));
  a.beta = given.size() > 1 ? given[1] : node.get_float("activation_beta", static_cast<float>(a.beta));
  return a;
}

std::vector<Activation> recurrent_activations(const Node& node, const std::vector<std::string>& otherwise, int64_t directions) {
  std::vector<std::string> names = node.get_strings("activations");
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), otherwise.begin(), otherwise.end());
  }
  const size_t expected = otherwise.size() * static_cast<size_t>(directions);
  if (names.size() != expected) fail("activations has {} names, expected {}", names.size(), expected);
  const std::vector<float> alphas = node.get_floats("activation_alpha"), betas = node.get_floats("activation_beta");
  std::vector<Activation> out;
  size_t alpha = 0, beta = 0;  // the lists hold values for those functions only that take one
  for (const std::string& name : names) {
    Activation a = activation(name);
    const int parameters = row(name).parameters;
    if (parameters > 0 && alpha < alphas.size()) a.alpha = alphas[alpha++];
    if (parameters > 1 && beta < betas.size()) a.beta = betas[beta++];
    out.push_back(a);
  }
  return out;
}

}  // namespace smelt::ops
