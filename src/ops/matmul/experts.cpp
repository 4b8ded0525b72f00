// MoE and QMoE: each token goes through the experts that the router gives it, and their results are summed by the router's weights.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/stop.h"
#include "ops/core/list_inputs.h"
#include "ops/matmul/experts.h"

namespace smelt::ops {

void route_tokens(const Node& node, const float* router, int64_t tokens, int64_t experts, Routes& all) {
  const int64_t k = node.get_int("k", 1);
  const bool normalised = node.get_int("normalize_routing_weights", 0) != 0;
  auto& routes = all.of_experts;
  routes.resize(static_cast<size_t>(experts));
  for (auto& r : routes) r.clear();
  auto& ordered = all.ordered;
  ordered.resize(static_cast<size_t>(experts));
  for (int64_t t = 0; t < tokens; ++t) {
    const float* row = router + t * experts;
    const float largest = *std::max_element(row, row + experts);
    float sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += (ordered[static_cast<size_t>(e)] = {std::exp(row[e] - largest), e}).first;
    for (auto& [p, e] : ordered) p = std::isnan(p / sum) ? 0 : p / sum;  // no order of numbers that are none
    std::partial_sort(ordered.begin(), ordered.begin() + k, ordered.end(), std::greater<>());
    float taken = 1;
    if (normalised) taken = 0;
    for (int64_t i = 0; normalised && i < k; ++i) taken += ordered[static_cast<size_t>(i)].first;
    for (int64_t i = 0; i < k; ++i)
      if (const auto& [p, e] = ordered[static_cast<size_t>(i)]; p > 0) routes[static_cast<size_t>(e)].push_back({t, p / taken});
  }
}

namespace {

void expect_shape(const InferContext& c, size_t i, const Shape& expected) {
  if (c.has(i) && c.in(i).shape_known && c.shape(i) != expected)
    fail("input {} has shape {}, expected {}", i, to_string(c.shape(i)), to_string(expected));
}

void expect_attributes(const Node& n) {
  const std::string activation = n.get_string("activation_type", "relu");
  if (activation != "relu" && activation != "gelu" && activation != "silu" && activation != "identity" && activation != "swiglu")
    fail("activation_type is '{}', expected 'relu', 'gelu', 'silu', 'identity' or 'swiglu'", activation);
  if (activation == "swiglu" && n.get_int("swiglu_fusion", 0) != 1)
    fail("swiglu_fusion is {}, expected 1 (interleaved)", n.get_int("swiglu_fusion", 0));
  if (n.get_int("use_sparse_mixer", 0) != 0) fail("use_sparse_mixer is 1, expected 0");
  if (n.op != "QMoE") return;
  if (const std::string type = n.get_string("quant_type", "int"); type != "int") fail("quant_type is '{}', expected 'int'", type);
  if (n.get_int("weights_prepacked", -1) > 0) fail("weights_prepacked is 1, expected weights as the operator defines them");
  for (size_t layer = 0; layer < 2; ++layer)
    if (const int64_t bits = bits_of(n, layer); bits != 2 && bits != 4 && bits != 8)
      fail("weights have {} bits, expected 2, 4 or 8", bits);
}

/// Weights [experts, n, k], with what they are quantised by.
void expect_layer(const InferContext& c, size_t layer, int64_t experts, int64_t n, int64_t k) {
  const LayerInputs& in = layers_of(c.node)[layer];
  expect_shape(c, in.bias, {experts, n});
  if (in.scales == no_input) return expect_shape(c, in.weights, {experts, n, k});
  const int64_t bits = bits_of(c.node, layer), block = c.node.get_int("block_size", 0);
  if (block < 0 || (block > 0 && k % block != 0)) fail("block_size is {} for rows of {}", block, k);
  expect_shape(c, in.weights, {experts, n, packed_bytes(k, bits)});
  if (block == 0) {
    expect_shape(c, in.scales, {experts, n});
    return expect_shape(c, in.zeros, {experts, packed_bytes(n, bits)});
  }
  expect_shape(c, in.scales, {experts, n, k / block});
  expect_shape(c, in.zeros, {experts, n, packed_bytes(k / block, bits)});
}

void infer_experts(InferContext& c) {
  const bool integers = c.node.op == "QMoE";
  const auto layers = layers_of(c.node);
  expect_attributes(c.node);
  const DType type = type_of(c, 0);
  if (type != DType::f32) fail("input 0 has type {}, expected f32", name(type));
  for (size_t i = integers ? 8 : 6; i < c.inputs.size(); ++i)
    if (c.has(i) && i != layers[0].zeros && i != layers[1].zeros) fail("input {} is not supported", i);
  for (const LayerInputs& in : layers) {
    const DType weights = integers ? DType::u8 : DType::f32;
    if (type_of(c, in.weights) != weights)
      fail("input {} has type {}, expected {}", in.weights, name(c.in(in.weights).type), name(weights));
    if (integers && type_of(c, in.scales) != type)
      fail("input {} has type {}, expected f32", in.scales, name(c.in(in.scales).type));
    if (c.has(in.bias) && c.in(in.bias).type != type)
      fail("input {} has type {}, expected f32", in.bias, name(c.in(in.bias).type));
    if (integers && c.has(in.zeros) && c.in(in.zeros).type != DType::u8)
      fail("input {} has type {}, expected u8", in.zeros, name(c.in(in.zeros).type));
  }
  if (type_of(c, 1) != type) fail("input 1 has type {}, expected f32", name(c.in(1).type));
  same_as(c, 0, 0);
  const bool known =
      c.in(0).shape_known && c.in(1).shape_known && c.in(layers[0].weights).shape_known && c.in(layers[1].weights).shape_known;
  if (!known) return;
  const Shape &x = c.shape(0), &router = c.shape(1), &first = c.shape(layers[0].weights), &second = c.shape(layers[1].weights);
  if (x.size() != 2 && x.size() != 3) fail("the input has shape {}, expected [tokens, hidden] or [B, S, hidden]", to_string(x));
  const int64_t hidden = x.back(), tokens = hidden == 0 ? 0 : elements(x) / hidden;
  if (hidden < 1 || router.size() != 2 || router[0] != tokens || router[1] < 1)
    fail("the router's input has shape {}, expected [{}, experts]", to_string(router), tokens);
  if (first.size() != 3 || second.size() != 3)
    fail("the weights have shapes {} and {}, expected rank 3", to_string(first), to_string(second));
  const bool gated = c.node.get_string("activation_type", "relu") == "swiglu";
  const int64_t inner = first[1] / (gated ? 2 : 1);
  if (gated && first[1] % 2 != 0) fail("the first layer has {} rows, expected an even number", first[1]);
  expect_layer(c, 0, router[1], first[1], hidden);
  expect_layer(c, 1, router[1], hidden, inner);
  if (const int64_t k = c.node.get_int("k", 1); k < 1 || k > router[1]) fail("k is {} of {} experts", k, router[1]);
}

float dot(const float* __restrict a, const float* __restrict b, int64_t n) {
  constexpr int64_t lanes = 16;
  float sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) sums[l] += a[i + l] * b[i + l];
  float total = 0;
  for (const float s : sums) total += s;
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// A layer of one expert.
class Layer {
 public:
  Layer(const ComputeContext& c, size_t layer, int64_t n, int64_t k)
      : in_(layers_of(c.node)[layer]),
        c_(c),
        n_(n),
        k_(k),
        bits_(bits_of(c.node, layer)),
        block_(c.node.get_int("block_size", 0)) {
    if (block_ == 0) block_ = std::max<int64_t>(k, 1);
    if (in_.scales != no_input) row_.resize(static_cast<size_t>(k));
  }

  /// y [rows, n] of x [rows, k].
  void run(int64_t expert, const std::vector<float>& x, std::vector<float>& y, int64_t rows) {
    const float* bias = c_.has(in_.bias) ? c_.in(in_.bias).data<float>() + expert * n_ : nullptr;
    for (int64_t i = 0; i < n_; ++i) {
      check_stop();
      const float* w = in_.scales == no_input ? c_.in(in_.weights).data<float>() + (expert * n_ + i) * k_ : widened(expert, i);
      for (int64_t r = 0; r < rows; ++r)
        y[static_cast<size_t>(r * n_ + i)] = dot(x.data() + r * k_, w, k_) + (bias ? bias[i] : 0);
    }
  }

 private:
  const float* widened(int64_t expert, int64_t i) {
    const int64_t blocks = k_ / block_;
    const uint8_t* w = c_.in(in_.weights).data<uint8_t>() + (expert * n_ + i) * packed_bytes(k_, bits_);
    const float* scales = c_.in(in_.scales).data<float>() + (expert * n_ + i) * blocks;
    const uint8_t* zeros = c_.has(in_.zeros) ? c_.in(in_.zeros).data<uint8_t>() : nullptr;
    const bool whole = c_.in(in_.scales).rank() == 2;
    for (int64_t b = 0; b < blocks; ++b) {
      int zero = 1 << (bits_ - 1);
      if (zeros)
        zero = whole ? packed_number(zeros + expert * packed_bytes(n_, bits_), i, bits_)
                     : packed_number(zeros + (expert * n_ + i) * packed_bytes(blocks, bits_), b, bits_);
      for (int64_t j = b * block_; j < (b + 1) * block_; ++j)
        row_[static_cast<size_t>(j)] = static_cast<float>(packed_number(w, j, bits_) - zero) * scales[b];
    }
    return row_.data();
  }

  LayerInputs in_;
  const ComputeContext& c_;
  int64_t n_, k_, bits_, block_;
  std::vector<float> row_;
};

void run_experts(ComputeContext& c) {
  const Node& node = c.node;
  const auto layers = layers_of(node);
  const int64_t hidden = c.in(0).shape().back(), wide = c.in(layers[0].weights).shape()[1];
  const ExpertActivation activation(node);
  const bool gated = activation.gated();
  const int64_t inner = gated ? wide / 2 : wide;
  const float* x = c.in(0).data<float>();
  float* y = c.outputs[0].data<float>();
  std::fill_n(y, c.outputs[0].size(), 0.0f);
  Layer first(c, 0, wide, hidden), second(c, 1, hidden, inner);
  Routes all;
  route_tokens(node, c.in(1).data<float>(), c.in(1).shape()[0], c.in(1).shape()[1], all);
  const auto& routes = all.of_experts;
  std::vector<float> own, between, activated, result;
  for (size_t e = 0; e < routes.size(); ++e) {
    const auto rows = static_cast<int64_t>(routes[e].size());
    if (rows == 0) continue;
    own.resize(static_cast<size_t>(rows * hidden));
    between.resize(static_cast<size_t>(rows * wide));
    activated.resize(static_cast<size_t>(rows * inner));
    result.resize(own.size());
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(x + routes[e][static_cast<size_t>(r)].token * hidden, hidden, own.begin() + r * hidden);
    first.run(static_cast<int64_t>(e), own, between, rows);
    for (size_t i = 0; i < activated.size(); ++i)
      activated[i] = gated ? activation(between[2 * i], between[2 * i + 1]) : activation(between[i]);
    second.run(static_cast<int64_t>(e), activated, result, rows);
    for (int64_t r = 0; r < rows; ++r) {
      const Route& route = routes[e][static_cast<size_t>(r)];
      for (int64_t i = 0; i < hidden; ++i)
        y[route.token * hidden + i] += route.weight * result[static_cast<size_t>(r * hidden + i)];
    }
  }
}

}  // namespace

std::span<const OpRow> expert_ops() {
  static constexpr OpRow table[] = {
      {{"MoE", microsoft_domain, infer_experts, run_experts}},
      {{"QMoE", microsoft_domain, infer_experts, run_experts}},
  };
  return table;
}

}  // namespace smelt::ops
