// ONNX Runtime's QLinear forms of plain operators. Each is defined as: dequantize the operands, compute in f32, quantize.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/quantize/quantize.h"

namespace smelt::ops {
namespace {

constexpr QLinearForm forms[] = {
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

std::vector<size_t> operands(const QLinearForm& f, size_t inputs) {
  std::vector<size_t> at = f.operands(inputs);
  if (at.empty()) fail("{} inputs, expected operands with a scale and a zero point each", inputs);
  return at;
}

Node plain_node(const QLinearForm& f, const Node& node, size_t inputs) {
  if (node.get_int("channels_last", 0)) fail_unsupported("channels_last is not supported");
  Node plain = node;
  plain.op = f.plain;
  plain.domain = onnx_domain;
  plain.opset = static_cast<int>(node.get_int("opset", 0));  // QLinearSoftmax says which Softmax it means
  plain.inputs.assign(inputs, ValueId{0});
  return plain;
}

}  // namespace

std::vector<size_t> QLinearForm::operands(size_t inputs) const {
  const size_t end = result >= first + 3 ? result : inputs;
  if (end > inputs || end < first || (end - first) % 3 != 0) return {};
  std::vector<size_t> at;
  for (size_t i = first; i < end; i += 3) at.push_back(i);
  return at;
}

const QLinearForm* qlinear_form(const Node& node) {
  const auto at = std::ranges::find(forms, node.op, &QLinearForm::op);
  return node.domain == microsoft_domain && at != std::end(forms) ? &*at : nullptr;
}

void infer_qlinear(InferContext& c) {
  const QLinearForm& f = *qlinear_form(c.node);
  std::vector<TensorDesc> in;
  for (size_t i = 0; i < f.unquantized; ++i) in.push_back(c.in(i));
  DType type = DType::u8;
  const auto check_quantized = [&](size_t i) {
    const DType of = c.in(i).type;
    if (!is_integer(of) || bits(of) < 8 || bits(of) > 16)
      fail("input {} is {}, expected an integer of 8 or 16 bits", i, name(of));
  };
  for (size_t i : operands(f, c.inputs.size())) {
    in.push_back({DType::f32, c.shape(i), true, nullptr});
    check_quantized(i);
    if (c.has(i + 2) && c.in(i + 2).type != c.in(i).type)
      fail("inputs {} and {}, a value and its zero point, are {} and {}", i, i + 2, name(c.in(i).type), name(c.in(i + 2).type));
    type = c.in(i).type;
  }
  if (c.has(f.result + 1)) check_quantized(f.result + 1);
  std::array<TensorDesc, 1> out;
  infer(plain_node(f, c.node, in.size()), in, out);
  c.set(0, c.has(f.result + 1) ? c.in(f.result + 1).type : type, out[0].shape);
}

void run_qlinear(ComputeContext& c) {
  const QLinearForm& f = *qlinear_form(c.node);
  std::vector<Tensor> in;
  for (size_t i = 0; i < f.unquantized; ++i) in.push_back(c.in(i));
  for (size_t i : operands(f, c.inputs.size())) in.push_back(dequantized(c.in(i), c.in(i + 1), c.in(i + 2)));
  const std::vector<Tensor> out = evaluate(plain_node(f, c.node, in.size()), in);
  quantize_into(out[0], c.in(f.result), c.in(f.result + 1), c.outputs[0]);
}

}  // namespace smelt::ops
