// Before   QLinearAdd, QLinearConcat or another of ONNX Runtime's QLinear forms of plain operators
// After    QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b))), as it is defined: the parts are taken in elsewhere
// Unless   a scale is not one number, or the result's zero point is left out
//          it is QLinearReduceMean, a Softmax older than opset 13 along another axis than the last (there it is over that and all behind
//          it), or works on images that are channels-last; the model is older than opset 10, which has no QuantizeLinear
#include "fuse/rewrites/quantized/quantized.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/quantize/quantize.h"

namespace smelt::fuse {
namespace {

/// Of ONNX's own operators; 0 in a body, which does not say.
int plain_opset(const Graph& g) {
  const auto at = g.model.opsets.find("");
  return at == g.model.opsets.end() ? 0 : static_cast<int>(at->second);
}

void take_apart(Graph& g, NodeId n, const std::string& plain, size_t unquantized, const std::vector<size_t>& operands,
                size_t result) {
  const Node old = g.node(n);
  const auto add = [&](const std::string& op, const std::string& name, std::vector<ValueId> inputs, ValueId output) {
    Node made{.op = op,
              .name = name,
              .opset = plain_opset(g),
              .inputs = std::move(inputs),
              .outputs = {output},
              .sources = old.sources,
              .order = old.order};
    if (op == plain) made.attrs = old.attrs;
    for (const char* own : {"channels_last", "opset"}) made.attrs.erase(own);
    return g.add_node(std::move(made));
  };
  g.remove_node(n);
  std::vector<ValueId> inputs(old.inputs.begin(), old.inputs.begin() + static_cast<std::ptrdiff_t>(unquantized));
  for (const size_t i : operands) {
    const std::string name = fmt::format("{}_dequantize_{}", old.name, inputs.size());
    inputs.push_back(g.add_value(name, DType::f32, g.value(old.inputs[i]).shape));
    add("DequantizeLinear", name, {old.inputs[i], old.inputs[i + 1], old.in(i + 2)}, inputs.back());
  }
  const ValueId real = g.add_value(old.name + "_real", DType::f32, g.value(old.out()).shape);
  add(plain, old.name, std::move(inputs), real);
  add("QuantizeLinear", old.name + "_quantize", {real, old.in(result), old.in(result + 1)}, old.out());
}

}  // namespace

Match in_parts(NodeId n, std::string_view plain, const std::vector<size_t>& operands, size_t result, size_t unquantized) {
  return {{n}, [=, op = std::string(plain)](Graph& g) {
            const ValueId y = g.node(n).out();
            take_apart(g, n, op, unquantized, operands, result);
            return g.value(y).producer;
          }};
}

Outcome qlinear_parts(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const ops::QLinearForm* form = ops::qlinear_form(node);
  if (!form) return NotHere{};
  const std::vector<size_t> operands = form->operands(node.inputs.size());
  if (operands.empty() || node.in(form->result) == ValueId::none || node.in(form->result + 1) == ValueId::none)
    return refuse(Reason::missing_input, n, "{} has no zero point of its result", describe(g, n));
  std::vector<size_t> scales{form->result};
  for (const size_t i : operands) {
    if (node.in(i) == ValueId::none) return refuse(Reason::missing_input, n, "input {} of {} is left out", i, describe(g, n));
    scales.push_back(i + 1);
  }
  if (const auto no = several_numbers(g, n, scales)) return *no;
  const auto before = [](int64_t opset, int64_t version) { return opset > 0 && opset < version; };
  const int64_t opset = plain_opset(g), own = node.get_int("opset", 0);
  const auto along_the_last = [&] {
    const int r = rank(g, node.inputs[operands[0]]);
    const int64_t axis = node.get_int("axis", 1);
    return r > 0 && (axis == -1 || axis == r - 1);
  };
  const bool old_softmax =
      form->plain == "Softmax" && (before(opset, 13) || before(own, 13)) && !along_the_last();  // over all axes behind one
  if (before(opset, 10) || old_softmax || form->plain == "ReduceMean")                          // whose axes moved
    return refuse(Reason::wrong_attribute, n, "{} is a {} of an older opset", describe(g, n), form->plain);
  if (node.get_int("channels_last", 0) != 0)
    return refuse(Reason::wrong_attribute, n, "{} works on channels-last images", describe(g, n));
  return in_parts(n, form->plain, operands, form->result, form->unquantized);
}

}  // namespace smelt::fuse
