#include "ops/core/cost.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>

#include "ops/core/reference_kernel.h"

namespace smelt::ops {
namespace {

int64_t count(const BoundTensor& t) { return t.type == DType::undefined ? 0 : elements(t.shape); }

const BoundTensor& in(const BoundNode& b, size_t i) {
  static const BoundTensor absent;
  return i < b.inputs.size() ? b.inputs[i] : absent;
}

int64_t product(const Shape& s, size_t from) {
  return std::accumulate(s.begin() + static_cast<int64_t>(from), s.end(), int64_t{1}, std::multiplies<>());
}

/// Operations of the node's program, an element of its first output.
int64_t program_flops(const BoundNode& b) { return b.node->program ? count(b.outputs[0]) * b.node->program->operations() : 0; }

/// Each output element sums over the weight's elements of one output channel.
int64_t conv_flops(const BoundNode& b, const BoundTensor& w) {
  return w.shape.empty() || w.shape[0] == 0 ? 0 : 2 * count(b.outputs[0]) * product(w.shape, 1);
}

/// Each input element is multiplied with the weight's elements of one input channel, [C, M / group, kernel…].
int64_t conv_transpose_flops(const BoundNode& b) { return 2 * count(in(b, 0)) * product(in(b, 1).shape, 1); }

int64_t matmul_flops(const BoundNode& b, bool trans_a) {
  const Shape& a = in(b, 0).shape;
  if (a.empty()) return 0;
  const int64_t k = trans_a && a.size() > 1 ? a[a.size() - 2] : a.back();
  return 2 * count(b.outputs[0]) * k;
}

/// q [B, H, Sq, D], k [B, Hk, Sk, D], v [B, Hk, Sk, Dv]: two products and the softmax between them.
int64_t attention_flops(const BoundNode& b) {
  const Shape& q = in(b, 0).shape;
  const Shape& v = in(b, 2).shape;
  if (q.size() != 4 || v.size() != 4) return 0;
  const int64_t scores = q[0] * q[1] * q[2] * v[2];
  const int64_t program = b.node->program ? b.node->program->operations() : 0;
  return scores * (2 * q[3] + 2 * v[3] + 5 + program);
}

int64_t pool_flops(const BoundNode& b) {
  if (b.node->op.starts_with("Global")) return count(in(b, 0));
  const std::vector<int64_t> kernel = b.node->get_ints("kernel_shape");
  return count(b.outputs[0]) * std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
}

/// Operations an element of input 0 for operators that pass over it a few times: the mean, the variance and the scaling
/// of a normalisation; the maximum, the exponential, the sum and the division of a softmax.
constexpr auto per_input_element = std::to_array<std::pair<std::string_view, int64_t>>({{"Softmax", 5},
                                                                                        {"LogSoftmax", 6},
                                                                                        {"LayerNormalization", 8},
                                                                                        {"InstanceNormalization", 8},
                                                                                        {"GroupNormalization", 8},
                                                                                        {"RMSNormalization", 5},
                                                                                        {"BatchNormalization", 2},
                                                                                        {"SkipLayerNormalization", 9},
                                                                                        {"Norm", 8},
                                                                                        {"LRN", 8},
                                                                                        {"LpNormalization", 4},
                                                                                        {"ReduceSum", 1},
                                                                                        {"ReduceMean", 1},
                                                                                        {"ReduceMax", 1},
                                                                                        {"ReduceMin", 1},
                                                                                        {"ReduceProd", 1},
                                                                                        {"ReduceSumSquare", 2},
                                                                                        {"ReduceL1", 2},
                                                                                        {"ReduceL2", 2},
                                                                                        {"ReduceLogSum", 1},
                                                                                        {"ReduceLogSumExp", 2},
                                                                                        {"Reduce", 1},
                                                                                        {"CumSum", 1},
                                                                                        {"ArgMax", 1},
                                                                                        {"ArgMin", 1},
                                                                                        {"RotaryEmbedding", 3},
                                                                                        {"Resize", 1},
                                                                                        {"QuantizeLinear", 2},
                                                                                        {"DequantizeLinear", 2},
                                                                                        {"DynamicQuantizeLinear", 4},
                                                                                        {"Sum", 1},
                                                                                        {"Mean", 1},
                                                                                        {"Max", 1},
                                                                                        {"Min", 1}});

/// Functions that one instruction does not compute, in additions and multiplications of the usual spelling.
constexpr auto pointwise_cost = std::to_array<std::pair<std::string_view, int64_t>>({{"Gelu", 5},
                                                                                     {"FastGelu", 8},
                                                                                     {"BiasGelu", 6},
                                                                                     {"QuickGelu", 4},
                                                                                     {"Sigmoid", 3},
                                                                                     {"HardSigmoid", 4},
                                                                                     {"HardSwish", 5},
                                                                                     {"Mish", 5},
                                                                                     {"Softplus", 3},
                                                                                     {"Cast", 0},
                                                                                     {"Where", 0},
                                                                                     {"Not", 0},
                                                                                     {"And", 0},
                                                                                     {"Or", 0},
                                                                                     {"Xor", 0}});

template <size_t N> const int64_t* lookup(const std::array<std::pair<std::string_view, int64_t>, N>& table, std::string_view op) {
  const auto at = std::ranges::find(table, op, &std::pair<std::string_view, int64_t>::first);
  return at == table.end() ? nullptr : &at->second;
}

int64_t flops(const BoundNode& b) {
  if (b.outputs.empty()) return 0;
  const Node& node = *b.node;
  const std::string_view op = node.op;
  if (node.domain == smelt_domain && op == "Pointwise") return program_flops(b);
  if (op == "Conv" && node.domain == smelt_domain) {
    return conv_flops(b, in(b, static_cast<size_t>(node.get_int("segments", 1)))) + program_flops(b);
  }
  if (op == "Conv" || op == "ConvInteger") return conv_flops(b, in(b, 1));
  if (op == "QLinearConv") return conv_flops(b, in(b, node.domain == smelt_domain ? 1 : 3)) + program_flops(b);
  if (op == "ConvTranspose") return conv_transpose_flops(b);
  if (op == "Gemm" || op == "MatMul" || op == "MatMulInteger" || op == "QLinearMatMul" || op == "FusedMatMul") {
    return matmul_flops(b, node.get_int("transA", 0) != 0) + program_flops(b);
  }
  if (op == "Attention" && node.domain == smelt_domain) return attention_flops(b);
  if (op.ends_with("Pool")) return pool_flops(b);
  if (const int64_t* n = lookup(per_input_element, op)) return *n * count(in(b, 0)) + program_flops(b);
  if (const int64_t* n = lookup(pointwise_cost, op)) return *n * count(b.outputs[0]);
  return is_elementwise(node) ? count(b.outputs[0]) : 0;
}

bool reads_rows(const Node& node) {
  return node.op == "Gather" || node.op == "GatherND" || node.op == "GatherElements" || node.op == "Slice";
}

int64_t moved(const BoundNode& b) {
  int64_t total = 0;
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    const BoundTensor& t = b.inputs[i];
    if (t.type == DType::undefined || t.type == DType::string) continue;
    // One tensor read through two inputs moves once.
    const bool again =
        t.constant.valid() &&
        std::ranges::any_of(b.inputs.begin(), b.inputs.begin() + static_cast<int64_t>(i),
                            [&](const BoundTensor& u) { return u.constant.valid() && u.constant.raw() == t.constant.raw(); });
    if (again) continue;
    const int64_t all = bytes(t.type, elements(t.shape));
    const bool rows = i == 0 && reads_rows(*b.node) && !b.outputs.empty();
    total += rows ? std::min(all, bytes(t.type, count(b.outputs[0]))) : all;
  }
  for (const BoundTensor& t : b.outputs) {
    if (t.type != DType::undefined && t.type != DType::string) total += bytes(t.type, elements(t.shape));
  }
  return total;
}

}  // namespace

Cost cost(const BoundNode& node) { return {moved(node), flops(node)}; }

}  // namespace smelt::ops
