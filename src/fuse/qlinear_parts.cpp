// Before   QLinearAdd, QLinearConcat or another of ONNX Runtime's QLinear forms of plain operators
// After    QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b))), as it is defined: the parts are taken in elsewhere
// Unless   a scale is not one number, or the result's zero point is left out
//          it is QLinearReduceMean, a Softmax older than opset 13, or works on images that are channels-last
#include "fuse/quantized.h"
#include "fuse/rewrites.h"
#include "ops/quant/quant.h"

namespace smelt::fuse {
namespace {

/// Of ONNX's own operators; 0 in a body, which does not say.
int plain_opset(const Graph& g) {
  const auto at = g.model.opsets.find("");
  return at == g.model.opsets.end() ? 0 : static_cast<int>(at->second);
}

void take_apart(Graph& g, NodeId n, const ops::QLinearForm& form, const std::vector<size_t>& operands) {
  const Node old = g.node(n);
  const Value result = g.value(old.out());
  const auto add = [&](std::string_view op, const std::string& name, std::vector<ValueId> inputs, ValueId output) {
    Node made{.op = std::string(op), .name = name, .opset = plain_opset(g), .inputs = std::move(inputs), .outputs = {output},
              .sources = old.sources, .order = old.order};
    if (op == form.plain) made.attrs = old.attrs;
    for (const char* own : {"channels_last", "opset"}) made.attrs.erase(own);
    return g.add_node(std::move(made));
  };
  g.remove_node(n);
  std::vector<ValueId> plain(old.inputs.begin(), old.inputs.begin() + static_cast<std::ptrdiff_t>(form.unquantized));
  for (const size_t i : operands) {
    const std::string name = fmt::format("{}_dequantize_{}", old.name, plain.size());
    plain.push_back(g.add_value(name, DType::f32, g.value(old.inputs[i]).shape));
    add("DequantizeLinear", name, {old.inputs[i], old.inputs[i + 1], old.in(i + 2)}, plain.back());
  }
  const ValueId real = g.add_value(old.name + "_real", DType::f32, result.shape);
  add(form.plain, old.name, std::move(plain), real);
  add("QuantizeLinear", old.name + "_quantize", {real, old.in(form.result), old.in(form.result + 1)}, old.out());
}

}  // namespace

Outcome qlinear_parts(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const ops::QLinearForm* form = ops::qlinear_form(node);
  if (!form) return NotHere{};
  const std::vector<size_t> operands = form->operands(node.inputs.size());
  if (operands.empty() || node.in(form->result) == ValueId::none || node.in(form->result + 1) == ValueId::none)
    return reject(Reason::missing_input, n, "{} has no zero point of its result", describe(g, n));
  std::vector<size_t> scales{form->result};
  for (const size_t i : operands) {
    if (node.in(i) == ValueId::none) return reject(Reason::missing_input, n, "input {} of {} is left out", i, describe(g, n));
    scales.push_back(i + 1);
  }
  for (const size_t i : scales)
    if (size_of(g, node.in(i)) != 1)
      return reject(Reason::wrong_shape, n, "input {} of {} has {} elements, expected one", i, describe(g, n),
                    size_of(g, node.in(i)));
  const auto old = [](int64_t opset) { return opset > 0 && opset < 13; };   // Softmax over all axes behind one, ReduceMean's axes
  if (form->plain == "ReduceMean" || (form->plain == "Softmax" && (old(plain_opset(g)) || old(node.get_int("opset", 0)))))
    return reject(Reason::wrong_attribute, n, "{} is a {} of an older opset", describe(g, n), form->plain);
  if (node.get_int("channels_last", 0) != 0)
    return reject(Reason::wrong_attribute, n, "{} works on channels-last images", describe(g, n));
  return Match{{n}, [n, form, operands](Graph& graph) {
    const ValueId result = graph.node(n).out();
    take_apart(graph, n, *form, operands);
    return graph.value(result).producer;
  }};
}

}  // namespace smelt::fuse
