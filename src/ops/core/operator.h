// What an operator is to smelt: a name, a rule for its outputs' types and shapes, and a reference in plain loops.
// Operators with faster tactics list them in tactic.h's terms; every operator can run through its reference.
//
// Adding an operator: one entry in its family's table (src/ops/FAMILY/FAMILY.cpp: `const OpDef conv_ops[]`), which
// src/ops/registry/operators.cpp lists. No static initialisers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace smelt::ops {

/// Type and concrete shape of one input or output; `value` where the bytes are known before the run (constants, shape
/// arithmetic), so that rules such as Reshape's can read them.
struct TensorDesc {
  DType type = DType::undefined;  // undefined: an optional input left out, or an output not inferred yet
  Shape shape;
  bool shape_known = false;
  const Tensor* value = nullptr;
  bool present() const { return type != DType::undefined; }
};

/// Given to OpDef::infer. Errors are thrown as Error with the expected and the found; the caller adds the node.
struct InferContext {
  const Node& node;
  std::span<const TensorDesc> inputs;
  std::span<TensorDesc> outputs;  // to be filled: type always, shape unless it depends on data

  const TensorDesc& in(size_t i) const;  // a TensorDesc that is not present() beyond the end
  bool has(size_t i) const { return in(i).present(); }
  const Shape& shape(size_t i) const;  // throws when not present or not known
  /// Both do nothing for an output beyond the node's last, so that rules need not ask for optional ones.
  void set(size_t i, DType type, Shape shape);
  void set_type(size_t i, DType type);  // shape depends on data
  /// The values of an integer input that must be known to infer the shape; nothing when they are not known yet.
  std::optional<std::vector<int64_t>> ints(size_t i) const;
};

/// Given to OpDef::reference. Inputs may be views of constants or of other nodes' outputs; never written.
struct ComputeContext {
  const Node& node;
  std::span<const Tensor> inputs;  // not valid() where left out
  std::span<Tensor> outputs;       // allocated when infer gave a shape; otherwise the reference assigns a tensor

  const Tensor& in(size_t i) const;
  bool has(size_t i) const { return in(i).valid(); }
  /// True when the node asks for output i; an output not asked for is not allocated and must not be written.
  bool wants(size_t i) const { return node.out(i) != ValueId::none; }
  /// Runs a subgraph (If, Loop, Scan) with these inputs; set by whoever evaluates.
  std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor>)> run_graph;
};

class Body;

struct OpDef {
  std::string_view op;
  std::string_view domain;
  void (*infer)(InferContext&);
  void (*reference)(ComputeContext&);
  bool deterministic = true;  // false: RandomNormal, Dropout in training, …: never folded
  /// A fused operator in ONNX's own (core/function_body.h): its outputs. Null for operators of other domains.
  std::vector<ValueId> (*body)(Body&) = nullptr;
};

/// The definition, or null when smelt has none.
const OpDef* find(std::string_view op, std::string_view domain);
/// All definitions, in the registry's order.
std::span<const OpDef* const> all();

/// "'conv3' (Conv)", "(com.microsoft:Gelu)" when the node has no name: where an error message says it happened.
std::string label(const Node& node);

/// Runs infer, and checks that every output got a type. Errors name the node.
void infer(const Node& node, std::span<const TensorDesc> inputs, std::span<TensorDesc> outputs);

/// Evaluates one node on tensors: infer, allocate, reference. Outputs not asked for (left out by the node) stay invalid.
std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> inputs);
/// Interprets a whole graph operator by operator with the references: the oracle, the constant folder and control flow
/// use it. `inputs` in the order of g.inputs(); returns g.outputs(). Frees intermediates after their last reader.
std::vector<Tensor> evaluate(const Graph& g, std::span<const Tensor> inputs);

}  // namespace smelt::ops
