// Running one node through its definition: shape rule, allocation, reference.
#include "ops/core/operator.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/memory.h"
#include "ops/core/copy.h"
#include "ops/core/facts.h"
#include "ops/core/interpreter.h"

namespace smelt::ops {
namespace {

const OpDef& definition(const Node& node) {
  const OpDef* def = find(node.op, node.domain);
  if (!def) fail_unsupported("{}: smelt has no operator {} in domain '{}'", label(node), node.op, node.domain);
  return *def;
}

/// What goes wrong in a rule says in which node. Operands of too few axes or elements are noticed by the vectors they are in.
template <class Rule> void in_node(const Node& node, Rule&& rule) {
  try {
    rule();
  } catch (const Error& e) {
    throw e.at(label(node));
  } catch (const std::bad_alloc&) {
    fail("{}: no memory for what it computes with", label(node));
  } catch (const std::length_error&) {
    fail("{}: no memory for what it computes with", label(node));
  } catch (const std::out_of_range&) {
    fail("{}: an operand has fewer axes or elements than the operator reads", label(node));
  }
}

}  // namespace

std::string label(const Node& node) {
  const std::string op = node.domain.empty() ? node.op : fmt::format("{}:{}", node.domain, node.op);
  return node.name.empty() ? fmt::format("({})", op) : fmt::format("'{}' ({})", node.name, op);
}

const TensorDesc& InferContext::in(size_t i) const {
  static const TensorDesc absent;
  return i < inputs.size() ? inputs[i] : absent;
}

const Shape& InferContext::shape(size_t i) const {
  const TensorDesc& d = in(i);
  if (!d.present()) fail("input {} is required and was left out", i);
  if (!d.shape_known) fail("the shape of input {} is not known", i);
  return d.shape;
}

void InferContext::set(size_t i, DType type, Shape shape) {
  if (i >= outputs.size()) return;
  outputs[i] = {type, std::move(shape), true, nullptr};
}

void InferContext::set_type(size_t i, DType type) {
  if (i >= outputs.size()) return;
  outputs[i] = {type, {}, false, nullptr};
}

std::optional<std::vector<int64_t>> InferContext::ints(size_t i) const {
  const TensorDesc& d = in(i);
  if (!d.present() || !d.value) return std::nullopt;
  return d.value->to_ints();
}

const Tensor& ComputeContext::in(size_t i) const {
  static const Tensor absent;
  return i < inputs.size() ? inputs[i] : absent;
}

namespace {

/// Extents of which every product is a number: loops, strides and places multiply any of them, also where one is 0. They walk over the
/// others then, which cost no memory and may be as long as years: no longer than those of a tensor that there is room for.
void check_countable(const TensorDesc& d) {
  if (!d.present() || !d.shape_known) return;
  int64_t n = 1;
  for (const int64_t extent : d.shape) {
    if (extent < 0) fail("a tensor {}{} has a negative extent", name(d.type), to_string(d.shape));
    if (__builtin_mul_overflow(n, std::max<int64_t>(extent, 1), &n))
      fail("a tensor {}{} has more elements than can be counted", name(d.type), to_string(d.shape));
  }
  int64_t bits_of_all = 0;
  if (__builtin_mul_overflow(n, std::max(bits(d.type), 8), &bits_of_all))
    fail("a tensor {}{} has more bytes than can be counted", name(d.type), to_string(d.shape));
  constexpr int64_t soon = int64_t{1} << 26;  // bytes
  if (const int64_t size = bits_of_all / 8; size > soon && std::ranges::find(d.shape, 0) != d.shape.end())
    if (const int64_t most = std::min(memory_left(), int64_t{1} << 32); size > most)
      fail("a tensor {}{} has no elements, but its other extents are those of {} bytes, expected at most {}", name(d.type),
           to_string(d.shape), size, most);
}

/// The operands of what is computed element by element broadcast to the result: kernels walk them by the result's extents. Scales
/// along an axis or in blocks do not; their rule checks them.
void check_broadcast(const Node& node, std::span<const TensorDesc> inputs, std::span<const TensorDesc> outputs) {
  if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") return;
  if (outputs.empty() || !outputs[0].present() || !outputs[0].shape_known || !facts(node).expression.exists()) return;
  for (size_t i = 0; i < std::min<size_t>(inputs.size(), facts(node).operands); ++i) {
    if (!inputs[i].present() || !inputs[i].shape_known) continue;
    const auto both = broadcast(inputs[i].shape, outputs[0].shape);
    if (!both || *both != outputs[0].shape)
      fail("input {} has shape {}, which does not broadcast to the result's {}", i, to_string(inputs[i].shape),
           to_string(outputs[0].shape));
  }
}

/// Where an operand has no elements, loops over them may leave results as the memory was.
bool has_empty(std::span<const Tensor> tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.valid() && t.size() == 0; });
}

}  // namespace

// A plan calls this for every node once the extents of its inputs are known, and so does every step that waits for a run's, before
// any kernel or reference sees them: what a rule refuses, no kernel has to.
void infer(const Node& node, std::span<const TensorDesc> inputs, std::span<TensorDesc> outputs) {
  const OpDef& def = definition(node);
  InferContext ctx{node, inputs, outputs};
  in_node(node, [&] {
    std::ranges::for_each(inputs, check_countable);
    def.infer(ctx);
    std::ranges::for_each(outputs, check_countable);
    check_broadcast(node, inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.out(i) != ValueId::none && !outputs[i].present()) fail("output {} has no type by the operator's rule", i);
    }
  });
}

std::vector<Tensor> run_reference(const Node& node, std::span<const Tensor> inputs, const RunGraph& run_graph,
                                  const std::function<void(std::span<TensorDesc>)>& adjust) {
  const OpDef& def = definition(node);
  if (node.outputs.empty()) fail("{}: the node has no outputs", label(node));
  std::vector<TensorDesc> in(inputs.size()), out(node.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].valid()) in[i] = {inputs[i].type(), inputs[i].shape(), true, &inputs[i]};
  }
  infer(node, in, out);
  if (adjust) adjust(out);
  std::vector<Tensor> results(out.size());
  in_node(node, [&] {
    for (size_t i = 0; i < out.size(); ++i)
      if (node.out(i) != ValueId::none && out[i].shape_known) results[i] = Tensor::empty(out[i].type, out[i].shape);
  });
  if (has_empty(inputs))
    for (Tensor& t : results)
      if (t.valid()) fill_zero(t);
  ComputeContext ctx{node, inputs, results, run_graph};
  in_node(node, [&] {
    def.reference(ctx);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.out(i) != ValueId::none && !results[i].valid()) fail("output {} was not computed", i);
    }
  });
  return results;
}

std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> inputs) {
  return run_reference(node, inputs, [](const Graph& g, std::span<const Tensor> in) { return evaluate(g, in); });
}

}  // namespace smelt::ops
