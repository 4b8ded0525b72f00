#include "ops/pointwise/onnx_program.h"

#include <algorithm>
#include <vector>

#include "ops/core/expression.h"

namespace smelt::ops {

bool is_pointwise(const Node& n) {
  const Facts& f = facts(n);
  return f.elements == Elements::pointwise && f.expression.exists();
}

std::span<const BoundTensor> pointwise_inputs(const BoundNode& b) {
  return std::span(b.inputs).first(std::min<size_t>(b.inputs.size(), facts(*b.node).operands));
}

std::optional<expr::Program> program_of(const BoundNode& b) {
  if (b.node->program) return b.node->program;
  expr::Program p;
  std::vector<Operand> inputs;
  const size_t read = pointwise_inputs(b).size(), lead = facts(*b.node).expression.lead();
  for (const BoundTensor& t : b.inputs) {
    Operand o{t.type != DType::undefined};
    if (o.present && inputs.size() < read) {
      if (!computing_type(t.type)) return std::nullopt;
      o.ref = p.input(t.type);
    }
    if (o.present && t.constant.valid() && t.constant.size() == 1 && computing_type(t.type)) o.value = t.constant.to_doubles()[0];
    inputs.push_back(o);
  }
  const DType to = b.outputs[0].type;
  if (lead >= read || !inputs[lead].present || !computing_type(to)) return std::nullopt;
  const auto r = express({p, *b.node, inputs, required_computing_type(b.inputs[lead].type), to});
  if (!r) return std::nullopt;
  p.output(p.cast(*r, to));
  // Of Dropout, which drops nothing: its mask.
  for (size_t i = 1; i < b.outputs.size(); ++i) p.output(p.cast(p.constant(DType::i32, 1), b.outputs[i].type));
  return p;
}

}  // namespace smelt::ops
