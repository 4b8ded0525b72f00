#include "fuse/match/pointwise.h"

#include <cmath>

#include "base/error.h"
#include "base/value_of.h"
#include "fuse/match/compose.h"
#include "graph/fused.h"
#include "ops/core/expression.h"

namespace smelt::fuse {
namespace {

using expr::Fn;
using expr::Program;
using expr::Ref;

/// Null where the language has no form of the operator that reads all of its inputs and nothing else.
const ops::Expression* expression(const Node& n) {
  const ops::OpRow* row = ops::find_row(n.op, n.domain);
  if (!row || !row->def.deterministic || n.inputs.size() > row->facts.operands || !row->facts.expression.exists()) return nullptr;
  return &row->facts.expression;
}

std::optional<Refusal> bad_quantization(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool quantizes = node.op == "QuantizeLinear";
  const DType narrow = g.value(quantizes ? node.out() : node.in(0)).type;
  const bool byte_sized = is_integer(narrow) && bits(narrow) >= 8 && bits(narrow) <= 16;
  if (!byte_sized && (quantizes || narrow != DType::i32))
    return refuse(Reason::wrong_type, n, "{} is {}", describe(g, n), name(narrow));
  for (size_t i : {1, 2}) {
    const ValueId v = node.in(i);
    if (v == ValueId::none) continue;
    const auto& shape = g.value(v).shape;
    if (!shape || !is_static(*shape)) return refuse(Reason::unknown_shape, n, "the shape of {} is not known", g.value(v).name);
    if (elements(to_shape(*shape)) != 1)
      return refuse(Reason::wrong_shape, n, "{} has {} elements, one for each channel", g.value(v).name,
                    elements(to_shape(*shape)));
  }
  return {};
}

/// The instructions of a program inside another: its casts to f16 and bf16 fall away.
std::vector<Ref> append_program(Program& p, const Program& inner, std::span<const Ref> args) {
  std::vector<Ref> refs;
  for (const expr::Instruction& in : inner.code()) {
    const auto arg = [&](int i) { return refs[static_cast<size_t>(in.args[i])]; };
    switch (in.fn) {
      case Fn::input: refs.push_back(args[static_cast<size_t>(in.index)]); break;
      case Fn::constant: refs.push_back(p.constant(in.type, in.value)); break;
      case Fn::cast: refs.push_back(p.cast(arg(0), required_computing_type(in.type))); break;
      default:
        switch (expr::info(in.fn).arity) {
          case 1: refs.push_back(p.call(in.fn, arg(0))); break;
          case 2: refs.push_back(p.call(in.fn, arg(0), arg(1))); break;
          default: refs.push_back(p.call(in.fn, arg(0), arg(1), arg(2)));
        }
    }
  }
  std::vector<Ref> outputs;
  for (Ref r : inner.outputs()) outputs.push_back(refs[static_cast<size_t>(r)]);
  return outputs;
}

}  // namespace

std::optional<double> immediate(const Value& v) {
  if (!v.is_constant() || v.constant.size() != 1 || !computing_type(v.type)) return {};
  const double value = v.constant.to_doubles()[0];
  if (is_integer(v.type) && std::fabs(value) > 0x1p53) return {};
  return value;
}

std::optional<Refusal> not_pointwise(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const ops::Expression* form = expression(node);
  if (!form) return refuse(Reason::unsupported, n, "{} is not pointwise", describe(g, n));
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values)
      if (v != ValueId::none && !computing_type(g.value(v).type))
        return refuse(Reason::wrong_type, n, "{} is {}, which no program computes in", g.value(v).name, name(g.value(v).type));
  if (form->of_node) return {};

  if (node.outputs.size() != 1)
    return refuse(Reason::wrong_attribute, n, "{} has {} outputs", describe(g, n), node.outputs.size());
  if (node.in(0) == ValueId::none) return refuse(Reason::missing_input, n, "{} has no input", describe(g, n));
  if (!form->write && node.inputs.size() > form->operands())
    return refuse(Reason::unsupported, n, "{} has {} inputs, expected {}", describe(g, n), node.inputs.size(), form->operands());
  for (size_t i = 1; i < form->operands(); ++i)
    if (node.in(i) == ValueId::none)
      return refuse(Reason::missing_input, n, "{} has no input {} of {}", describe(g, n), i, form->operands());
  const DType type = required_computing_type(g.value(node.inputs[form->lead()]).type);
  if (!form->accepts(type)) return refuse(Reason::wrong_type, n, "{} of {}", describe(g, n), name(type));
  for (size_t i = form->lead(); i < node.inputs.size() && !form->mixed; ++i) {
    if (node.inputs[i] == ValueId::none) continue;
    const DType other = required_computing_type(g.value(node.inputs[i]).type);
    if (other != type) return refuse(Reason::wrong_type, n, "{} of {} and {}", describe(g, n), name(type), name(other));
  }
  if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") return bad_quantization(g, n);
  return {};
}

std::vector<Ref> append_node(Program& p, const Graph& g, NodeId n, std::span<const Ref> args) {
  const Node& node = g.node(n);
  if (node.is("Pointwise", smelt_domain))
    return append_program(p, value_of(node.program, "the program of a Pointwise node"), args);
  std::vector<ops::Operand> inputs;
  for (Ref r : args) {
    ops::Operand o{r >= 0, r};
    if (r >= 0 && p.code()[static_cast<size_t>(r)].fn == Fn::constant) o.value = p.code()[static_cast<size_t>(r)].value;
    inputs.push_back(o);
  }
  const size_t lead = ops::facts(node).expression.lead();
  const auto r = ops::express({p, node, inputs, p.type(args[lead]), g.value(node.outputs[0]).type, true});
  if (!r) fail("{} has no program for its types", describe(g, n));
  return {*r};
}

Body pointwise_body(const Graph& g, std::span<const NodeId> nodes, std::span<const ValueId> results, ValueId in0) {
  if (in0 == ValueId::none) return compose(g, nullptr, nodes, results);
  const DType type = g.value(in0).type;
  const Base base{in0, expr::conversion(accumulator(type), type), {}};
  return compose(g, &base, nodes, results);
}

}  // namespace smelt::fuse
