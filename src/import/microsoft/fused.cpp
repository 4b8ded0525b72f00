// Operators that are one of ONNX's with something before or behind it: an activation, a bias, a transposition, channels last.
#include <algorithm>

#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

/// The attributes of the call without those that are not ONNX's.
std::vector<onnx::AttributeProto> attributes_without(const Call& c, std::initializer_list<const char*> names) {
  std::vector<onnx::AttributeProto> kept;
  for (const auto& a : c.node.attribute())
    if (std::find(names.begin(), names.end(), a.name()) == names.end()) kept.push_back(a);
  return kept;
}

std::vector<float> floats(const Call& c, const char* name) {
  const auto* a = find_attribute(c.node, name);
  return a ? std::vector<float>(a->floats().begin(), a->floats().end()) : std::vector<float>();
}

/// The call becomes the activation that `activation` and `activation_params` name, of x.
void become_activation(Call& c, const Name& x) {
  const std::string name = c.text("activation", "");
  const std::vector<float> p = floats(c, "activation_params");
  const auto parameter = [&](size_t i, float otherwise) {
    return i < p.size() ? p[i] : c.number(i == 0 ? "activation_alpha" : "activation_beta", otherwise);
  };
  if (name == "LeakyRelu") return c.become(name, {x}, {MakeAttribute("alpha", parameter(0, 0.01f))});
  if (name == "HardSigmoid")
    return c.become(name, {x}, {MakeAttribute("alpha", parameter(0, 0.2f)), MakeAttribute("beta", parameter(1, 0.5f))});
  if (name == "Clip" && p.size() == 2)
    return c.become(name, {x, c.score_scalar(static_cast<double>(p[0])), c.score_scalar(static_cast<double>(p[1]))});
  if (name == "Elu" || name == "ThresholdedRelu") return c.become(name, {x}, {MakeAttribute("alpha", parameter(0, 1.0f))});
  for (const char* plain : {"Relu", "Tanh", "Sigmoid", "HardSwish", "Gelu", "Softplus", "Softsign"})
    if (name == plain) return c.become(name, {x});
  c.refuse("activation is '{}' with {} parameters", name, p.size());
}

std::vector<int64_t> permutation(int rank, bool to_channels_last) {
  std::vector<int64_t> perm{0};
  if (!to_channels_last) perm.push_back(rank - 1);
  for (int i = to_channels_last ? 2 : 1; i < rank - (to_channels_last ? 0 : 1); ++i) perm.push_back(i);
  if (to_channels_last) perm.push_back(1);
  return perm;
}

Name transposed(Call& c, const Name& x, std::vector<int64_t> perm) {
  return c.before("Transpose", {x}, {MakeAttribute("perm", std::move(perm))});
}

/// The result of the call, which now has channels first, is put behind it with channels last.
void result_to_channels_last(Call& c, int rank) {
  const Name y = c.node.output(0);
  c.after("Transpose", {c.detach_output(0)}, y, {MakeAttribute("perm", permutation(rank, true))});
}

}  // namespace

// X, W, B?, Z?: activation(conv(X, W) + B + Z)
void fused_conv(Call& c) {
  const auto attributes = attributes_without(c, {"activation", "activation_params"});
  Name y = c.before("Conv",
                    c.has(2) ? std::vector<Name>{c.input(0), c.input(1), c.input(2)} : std::vector<Name>{c.input(0), c.input(1)},
                    attributes);
  if (c.has(3)) y = c.before("Add", {y, c.input(3)});
  if (c.text("activation", "").empty()) return c.become("Identity", {y});
  become_activation(c, y);
}

bool takes_fused_gemm(const Call& c) {
  constexpr std::string_view known[] = {"",         "Relu",      "Tanh", "Sigmoid",         "Softplus",
                                        "Softsign", "LeakyRelu", "Elu",  "ThresholdedRelu", "HardSigmoid"};
  return std::ranges::find(known, c.text("activation", "")) != std::end(known);
}

// A, B, C?: activation(alpha * A' B' + beta * C)
void fused_gemm(Call& c) {
  const auto attributes = attributes_without(c, {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
  std::vector<Name> inputs{c.input(0), c.input(1)};
  if (c.has(2)) inputs.push_back(c.input(2));
  if (c.text("activation", "").empty()) return c.become("Gemm", inputs, attributes);
  become_activation(c, c.before("Gemm", inputs, attributes));
}

// alpha * A' B'. transBatchA: A' has A's first axis before its last one; then transA swaps the last two.
void fused_matmul(Call& c) {
  std::vector<Name> factors;
  for (int i : {0, 1}) {
    const bool batch = c.integer(i == 0 ? "transBatchA" : "transBatchB", 0) != 0;
    const bool last = c.integer(i == 0 ? "transA" : "transB", 0) != 0;
    Name x = c.input(i);
    if (batch || (last && c.shape(i))) {
      const int rank = c.rank(i);
      if (batch && rank < 2) c.refuse("its input {} of rank {} has no axis to move", i, rank);
      std::vector<int64_t> perm;
      for (int a = 0; a < rank; ++a) perm.push_back(a);
      if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
      if (last && rank > 1) std::swap(perm[static_cast<size_t>(rank) - 1], perm[static_cast<size_t>(rank) - 2]);
      x = transposed(c, x, perm);
    }
    factors.push_back(x);
  }
  const bool left = (c.integer("transA", 0) != 0 && !c.shape(0)) || (c.integer("transB", 0) != 0 && !c.shape(1));
  if (left) return;  // of unknown rank: the operator's own kernels take it
  const float alpha = c.number("alpha", 1);
  if (alpha == 1) return c.become("MatMul", factors);
  c.become("Mul", {c.before("MatMul", factors), c.score_scalar(static_cast<double>(alpha))});
}

void transpose_matmul(Call& c) { fused_matmul(c); }

// X [.., K], W [K, N], bias?: the product behind Gelu's approximation by tanh
void gemm_fast_gelu(Call& c) {
  const Name y = sum(c, c.before("MatMul", {c.input(0), c.input(1)}), c.input(2));
  c.become("Gelu", {y}, {MakeAttribute("approximate", std::string("tanh"))});
}

// softmax(data + bias) over the axes from `axis` on
void bias_softmax(Call& c) {
  const int rank = c.rank(0);
  const int64_t axis = c.integer("axis", 1);
  if (axis != rank - 1 && axis != -1) c.refuse("axis is {} of rank {}, expected the last", axis, rank);
  c.become("Softmax", {c.before("Add", {c.input(0), c.input(1)})}, {MakeAttribute("axis", int64_t{-1})});
}

void bias_add(Call& c) { c.become("Add", {c.before("Add", {c.input(0), c.input(1)}), c.input(2)}); }

// x = X + bias in two halves of its last axis: left * gelu(right)
void bias_split_gelu(Call& c) {
  const auto halves = c.several("Split", {c.before("Add", {c.input(0), c.input(1)})}, 2,
                                {MakeAttribute("axis", int64_t{-1}), MakeAttribute("num_outputs", int64_t{2})});
  c.become("Mul", {halves[0], c.before("Gelu", {halves[1]})});
}

namespace {

/// The call becomes the group norm of x, with SiLU where `activation` asks for it.
void become_group_norm(Call& c, Name x) {
  const bool last = c.integer("channels_last", 1) != 0;
  const int rank = c.rank(0);
  if (last) x = transposed(c, x, permutation(rank, false));
  const auto like = [&](int i) { return c.before("CastLike", {c.input(i), c.input(0)}); };
  const std::vector<Name> inputs{x, like(1), like(2)};
  const std::vector<onnx::AttributeProto> attributes{MakeAttribute("num_groups", c.integer("groups", 32)),
                                                     MakeAttribute("epsilon", c.number("epsilon", 1e-5f))};
  if (const int64_t activation = c.integer("activation", 0); activation == 1) {
    const Name y = c.before("GroupNormalization", inputs, attributes);
    c.become("Mul", {y, c.before("Sigmoid", {y})});
  } else if (activation == 0) {
    c.become("GroupNormalization", inputs, attributes);
  } else {
    c.refuse("activation is {}, expected 0 or 1 (SiLU)", activation);
  }
  if (last) result_to_channels_last(c, rank);
}

}  // namespace

void group_norm(Call& c) { become_group_norm(c, c.input(0)); }

// X, gamma, beta, skip, bias? → y, X + skip + bias. The skip is of X's shape, or [N, C] or [N, 1, 1, C].
void skip_group_norm(Call& c) {
  const bool last = c.integer("channels_last", 1) != 0;
  if (!last) c.refuse("channels_last is 0, expected 1");
  Name skip = c.input(3);
  if (c.rank(3) == 2) skip = unsqueeze(c, skip, {1, 2});
  const Name sum = microsoft::sum(c, c.before("Add", {c.input(0), skip}), c.input(4));
  c.give(1, sum);
  become_group_norm(c, sum);
}

// The QLinear operators with channels_last, which with 0 have kernels of their own. QLinearConv is ONNX's then.
void channels_last(Call& c) {
  const bool last = c.integer("channels_last", 0) != 0;
  c.remove("channels_last");
  if (c.node.op_type() == "QLinearConv") c.node.set_domain("");
  if (!last) return;
  const int rank = c.rank(0);
  c.set_input(0, transposed(c, c.input(0), permutation(rank, false)));
  result_to_channels_last(c, rank);
}

void nhwc_max_pool(Call& c) {
  const int rank = c.rank(0);
  c.become("MaxPool", {transposed(c, c.input(0), permutation(rank, false))}, attributes_without(c, {}));
  result_to_channels_last(c, rank);
}

// NhwcConv and NhwcFusedConv; the filters are [M, C, spatial...] as ONNX has them
void nhwc_conv(Call& c) {
  const int rank = c.rank(0);
  c.set_input(0, transposed(c, c.input(0), permutation(rank, false)));
  if (c.has(3)) c.set_input(3, transposed(c, c.input(3), permutation(rank, false)));
  fused_conv(c);
  result_to_channels_last(c, rank);
}

}  // namespace smelt::importer::microsoft
