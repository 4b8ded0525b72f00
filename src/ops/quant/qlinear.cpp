// ONNX Runtime's QLinear forms of plain operators. Each is defined as: dequantize the operands, compute in f32, quantize.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/quant/products.h"
#include "ops/quant/quant.h"

namespace smelt::ops {
namespace {

/// Where the operands are: each with its scale and zero point behind it, plain ones first, the result's scale and zero point at
/// `result`.
struct Form {
  std::string_view op, plain;
  size_t unquantized = 0;   // leading inputs that are passed on as they are (Where's condition)
  size_t first = 0;         // the first quantized operand
  size_t result = 3;        // y_scale, y_zero_point
};

constexpr Form forms[] = {
    {"QLinearSigmoid", "Sigmoid"},
    {"QLinearLeakyRelu", "LeakyRelu"},
    {"QLinearSoftmax", "Softmax"},
    {"QLinearAveragePool", "AveragePool"},
    {"QLinearGlobalAveragePool", "GlobalAveragePool"},
    {"QLinearReduceMean", "ReduceMean"},
    {"QLinearAdd", "Add", 0, 0, 6},
    {"QLinearMul", "Mul", 0, 0, 6},
    {"QLinearWhere", "Where", 1, 1, 7},
    {"QLinearConcat", "Concat", 0, 2, 0},
};

const Form& form_of(const Node& node) {
  return *std::ranges::find_if(forms, [&](const Form& f) { return f.op == node.op; });
}

/// Positions of the quantized operands.
std::vector<size_t> operands(const Form& f, size_t inputs) {
  const size_t end = f.result >= f.first + 3 ? f.result : inputs;
  if (end > inputs || (end - f.first) % 3) fail("{} inputs, expected operands with a scale and a zero point each", inputs);
  std::vector<size_t> at;
  for (size_t i = f.first; i < end; i += 3) at.push_back(i);
  return at;
}

Node plain_node(const Form& f, const Node& node, size_t inputs) {
  if (node.get_int("channels_last", 0)) fail_unsupported("channels_last is not supported");
  Node plain = node;
  plain.op = f.plain;
  plain.domain = onnx_domain;
  plain.opset = static_cast<int>(node.get_int("opset", 0));   // QLinearSoftmax says which Softmax it means
  plain.inputs.assign(inputs, ValueId{0});
  return plain;
}

}  // namespace

void infer_qlinear(InferContext& c) {
  const Form& f = form_of(c.node);
  std::vector<TensorDesc> in;
  for (size_t i = 0; i < f.unquantized; ++i) in.push_back(c.in(i));
  DType type = DType::u8;
  for (size_t i : operands(f, c.inputs.size())) {
    in.push_back({DType::f32, c.shape(i), true, nullptr});
    type = c.in(i).type;
  }
  std::array<TensorDesc, 1> out;
  infer(plain_node(f, c.node, in.size()), in, out);
  c.set(0, c.has(f.result + 1) ? c.in(f.result + 1).type : type, out[0].shape);
}

void run_qlinear(ComputeContext& c) {
  const Form& f = form_of(c.node);
  std::vector<Tensor> in;
  for (size_t i = 0; i < f.unquantized; ++i) in.push_back(c.in(i));
  for (size_t i : operands(f, c.inputs.size())) in.push_back(dequantized(c.in(i), c.in(i + 1), c.in(i + 2)));
  const std::vector<Tensor> out = evaluate(plain_node(f, c.node, in.size()), in);
  quantize_into(out[0], c.in(f.result), c.in(f.result + 1), c.outputs[0]);
}

}  // namespace smelt::ops
