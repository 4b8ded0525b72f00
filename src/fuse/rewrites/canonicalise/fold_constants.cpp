// Before   a node whose inputs are constants, or whose result follows from shapes (Shape, Size and arithmetic on them)
// After    its result as a constant
// Unless   the result has many more elements than what it is computed from (Expand, ConstantOfShape, Tile). The same elements in a wider
//          type are computed: weights that the model keeps in 16 or 8 bits and casts
//          the results of all such nodes come to take much more than what they are computed from
//          computing it here takes long (a product of large constants)
//          the operator draws random numbers, runs a subgraph, or dequantizes (the int8 operators take its input)
//          smelt cannot compute it
#include <algorithm>
#include <utility>

#include "fuse/match/bypass.h"
#include "fuse/match/extents.h"
#include "fuse/rewrites/canonicalise/folding.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/facts.h"

namespace smelt::fuse {
namespace {

constexpr int64_t at_most =
    64 << 20;  // bytes of a result of more elements: the model's constants are mapped, folded ones are not
constexpr int64_t together = 512 << 20;       // bytes of all results, less the inputs that nothing else reads
constexpr int64_t not_counted = 4 << 10;      // bytes of a result: extents and scalars, which rewrites need
constexpr int64_t product_at_most = 1 << 20;  // elements of a contraction's inputs: a second or so in plain loops

thread_local FoldingScope* folding = nullptr;

bool has_body(const Node& n) {
  return std::any_of(n.attrs.begin(), n.attrs.end(), [](const auto& a) { return std::holds_alternative<GraphPtr>(a.second); });
}

std::optional<Tensor> from_shapes(const Graph& g, ValueId out) {
  const Value& v = g.value(out);
  if (v.type != DType::i64 || !v.shape || !is_static(*v.shape) || v.shape->size() > 1) return {};
  const auto extents = shape_values(g, out);
  if (!extents) return {};
  std::vector<int64_t> numbers;
  for (const Extent& e : *extents) {
    if (!e.known()) return {};
    numbers.push_back(e.number);
  }
  if (static_cast<int64_t>(numbers.size()) != elements(to_shape(*v.shape))) return {};
  return Tensor::of(to_shape(*v.shape), numbers);
}

/// The shape rule's outputs; nothing when they depend on data or the inputs do not fit the operator.
std::optional<int64_t> result_bytes(const Node& node, const std::vector<Tensor>& inputs) {
  std::vector<ops::TensorDesc> in(inputs.size()), out(node.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].valid()) in[i] = {inputs[i].type(), inputs[i].shape(), true, &inputs[i]};
  ops::infer(node, in, out);
  int64_t total = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (node.outputs[i] != ValueId::none && out[i].shape_known) total += bytes(out[i].type, elements(out[i].shape));
  return total;
}

/// What the results take beyond the inputs that go with the node.
int64_t added_bytes(const Graph& g, NodeId n, int64_t result) {
  for (ValueId v : g.node(n).inputs)
    if (v != ValueId::none && g.only_reader(v) == n) result -= g.value(v).constant.nbytes();
  return std::max<int64_t>(0, result);
}

Match become_constants(NodeId n, std::vector<ValueId> outputs, std::vector<Tensor> results, int64_t added) {
  return {{n}, [n, outputs = std::move(outputs), results = std::move(results), added](Graph& graph) {
            if (folding) folding->bytes += added;
            graph.remove_node(n);
            for (size_t i = 0; i < outputs.size(); ++i)
              if (outputs[i] != ValueId::none) graph.set_constant(outputs[i], results[i]);
            return NodeId::none;
          }};
}

}  // namespace

FoldingScope::FoldingScope() : outer_(std::exchange(folding, this)) {}
FoldingScope::~FoldingScope() { folding = outer_; }

Outcome fold_constants(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.outputs.size() == 1)
    if (auto t = from_shapes(g, node.out())) return become_constant(g, n, std::move(*t));

  std::vector<Tensor> inputs;
  int64_t in_bytes = 0, in_elements = 0, longest = 0;
  for (ValueId v : node.inputs) {
    if (v != ValueId::none && !g.value(v).is_constant()) return NotHere{};
    inputs.push_back(v == ValueId::none ? Tensor() : g.value(v).constant);
    in_bytes += inputs.back().nbytes();
    in_elements += inputs.back().size();
    longest = std::max(longest, inputs.back().size());
  }
  const ops::OpDef* def = ops::find(node.op, node.domain);
  if (!def || !def->deterministic || node.domain == smelt_domain || node.op == "DequantizeLinear") return NotHere{};
  if (has_body(node)) return refuse(Reason::in_subgraph, n, "{} runs a subgraph", describe(g, n));
  if (ops::facts(node).contracts && in_elements > product_at_most)
    return refuse(Reason::too_large, n, "{} of {} elements, at most {} are computed here", describe(g, n), in_elements,
                  product_at_most);
  try {
    const auto size = result_bytes(node, inputs);
    const bool widens = node.outputs.size() == 1 && size && *size <= bytes(g.value(node.out()).type, longest);
    if (size && *size > folded_always && !(widens && *size <= together) && (*size > in_bytes || *size > at_most))
      return refuse(Reason::too_large, n, "the result takes {} bytes, the inputs {}", *size, in_bytes);
    const int64_t added = size && *size > not_counted ? added_bytes(g, n, *size) : 0;
    if (folding && added > 0 && folding->bytes + added > together)
      return refuse(Reason::too_large, n, "the result takes {} bytes, those of other nodes took {} before, at most {} together",
                    *size, folding->bytes, together);
    auto results = ops::evaluate(node, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      const Value* declared = node.out(i) == ValueId::none ? nullptr : &g.value(node.out(i));
      if (declared && declared->type != results[i].type())
        return refuse(Reason::wrong_type, n, "{} is declared as {}, and is {}", declared->name, name(declared->type),
                      name(results[i].type()));
    }
    return become_constants(n, node.outputs, std::move(results), added);
  } catch (const Error& e) {
    return refuse(Reason::unsupported, n, "{}", e.what());
  }
}

}  // namespace smelt::fuse
