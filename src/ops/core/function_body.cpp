#include "ops/core/function_body.h"

#include <numeric>

#include "base/error.h"
#include "expr/onnx.h"
#include "graph/fused.h"

namespace smelt::ops {

Body::Body(const Graph& from, NodeId n) : node_(from.node(n)) {
  g_.name = node_.op;
  for (ValueId v : node_.inputs) {
    if (v == ValueId::none) {
      inputs_.push_back(ValueId::none);
      input_shapes_.emplace_back();
      continue;
    }
    const Value& value = from.value(v);
    inputs_.push_back(g_.add_value("in" + std::to_string(inputs_.size()), value.type, value.shape));
    input_shapes_.push_back(value.shape);
    g_.add_input(inputs_.back());
  }
  for (ValueId v : node_.outputs) types_.push_back(v == ValueId::none ? DType::undefined : from.value(v).type);
}

DType Body::accumulator() const { return smelt::accumulator(types_[0]); }

const SymShape& Body::shape(size_t i) const {
  const std::optional<SymShape>* known = has(i) ? &input_shapes_[i] : nullptr;
  if (!known || !*known) fail("its body depends on the rank of input {}, which is not known", i);
  return **known;
}

int64_t Body::extent(size_t i, int64_t axis) const {
  const SymShape& s = shape(i);
  const Dim& d = s[static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(s.size())))];
  if (!d.known()) fail("its body depends on axis {} of input {}, {}, whose extent is not a number", axis, i, to_string(s));
  return d.value;
}

ValueId Body::op(const std::string& name, std::vector<ValueId> inputs, DType type, std::map<std::string, Attribute> attrs) {
  const ValueId out = g_.add_value("", type, std::nullopt);
  g_.add_node({.op = name, .inputs = std::move(inputs), .outputs = {out}, .attrs = std::move(attrs)});
  return out;
}

ValueId Body::op(const std::string& name, std::vector<ValueId> inputs, std::map<std::string, Attribute> attrs) {
  const DType t = type(inputs[0]);
  return op(name, std::move(inputs), t, std::move(attrs));
}

std::vector<ValueId> Body::split(ValueId v, int64_t parts, int64_t axis) {
  std::vector<ValueId> out;
  for (int64_t i = 0; i < parts; ++i) out.push_back(g_.add_value("", type(v), std::nullopt));
  g_.add_node({.op = "Split", .inputs = {v}, .outputs = out, .attrs = {{"axis", axis}, {"num_outputs", parts}}});
  return out;
}

ValueId Body::cast(ValueId v, DType to) { return type(v) == to ? v : op("Cast", {v}, to, {{"to", static_cast<int64_t>(to)}}); }

ValueId Body::number(DType t, double value) {
  // 64-bit integers hold what a double holds exactly; every other type converts from one.
  return g_.add_constant("", Tensor::scalar(value).cast(t));
}
ValueId Body::ints(const std::vector<int64_t>& values) {
  return g_.add_constant("", Tensor::of({static_cast<int64_t>(values.size())}, values));
}
ValueId Body::floats(const std::vector<float>& values) {
  return g_.add_constant("", Tensor::of({static_cast<int64_t>(values.size())}, values));
}

ValueId Body::swap_last(ValueId v, int64_t rank) {
  if (rank < 2) fail("two axes are to be swapped, but the rank is {}", rank);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(v, perm);
}

std::vector<ValueId> Body::program(const expr::Program& p, std::span<const ValueId> inputs) {
  const expr::OnnxCode code = expr::to_onnx(p);
  std::vector<ValueId> at(inputs.begin(), inputs.end());
  for (const expr::OnnxNode& n : code.nodes) {
    if (n.op == "Constant") {
      at.push_back(number(n.type, n.value));
      continue;
    }
    if (n.op == "Cast") {
      at.push_back(cast(at[static_cast<size_t>(n.inputs[0])], n.type));
      continue;
    }
    std::vector<ValueId> args;
    for (int32_t a : n.inputs) args.push_back(at[static_cast<size_t>(a)]);
    std::map<std::string, Attribute> attrs;
    for (const auto& [key, v] : n.ints) attrs.emplace(key, v);
    for (const auto& [key, v] : n.strings) attrs.emplace(key, v);
    at.push_back(op(n.op, std::move(args), n.type, std::move(attrs)));
  }
  std::vector<ValueId> out;
  for (int32_t v : code.outputs) out.push_back(at[static_cast<size_t>(v)]);
  return out;
}

ValueId Body::epilogue(ValueId in0, size_t first) {
  if (!node_.program) return cast(in0, output_type());
  std::vector<ValueId> inputs = {in0};
  for (size_t i = first; i < inputs_.size(); ++i) inputs.push_back(inputs_[i]);
  return program(*node_.program, inputs)[0];
}

Graph Body::finish(const std::vector<ValueId>& outputs) {
  for (ValueId v : outputs) {
    if (v == ValueId::none) continue;
    // A graph's output is defined by a node of its own: neither an input, a constant, nor another output.
    g_.add_output(g_.is_input(v) || g_.is_output(v) || g_.value(v).is_constant() ? op("Identity", {v}) : v);
  }
  return std::move(g_);
}

}  // namespace smelt::ops
