// Building a fused operator's body: a graph of standard operators, one call an operator.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace smelt::ops {

class Body {
 public:
  Body(const Graph& from, NodeId n);

  const Node& node() const { return node_; }
  /// The node's input i in the body; none when it is left out.
  ValueId in(size_t i) const { return i < inputs_.size() ? inputs_[i] : ValueId::none; }
  bool has(size_t i) const { return in(i) != ValueId::none; }
  DType type(ValueId v) const { return g_.value(v).type; }
  const std::optional<SymShape>& shape_of(ValueId v) const { return g_.value(v).shape; }
  /// Shape of an input of the node; throws when its rank is not known.
  const SymShape& shape(size_t i) const;
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// An extent that the body depends on; throws when it is not a number.
  int64_t extent(size_t i, int64_t axis) const;
  DType output_type(size_t i = 0) const { return types_[i]; }
  DType accumulator() const;

  ValueId op(const std::string& name, std::vector<ValueId> inputs, DType type, std::map<std::string, Attribute> attrs = {});
  /// The same with the first input's type.
  ValueId op(const std::string& name, std::vector<ValueId> inputs, std::map<std::string, Attribute> attrs = {});
  /// An operator of several outputs of the first input's type.
  std::vector<ValueId> split(ValueId v, int64_t parts, int64_t axis);
  ValueId cast(ValueId v, DType to);                 // v itself when it has the type
  ValueId number(DType t, double value);             // a scalar
  ValueId ints(const std::vector<int64_t>& values);  // i64, one axis
  ValueId floats(const std::vector<float>& values);
  ValueId transpose(ValueId v, std::vector<int64_t> perm) { return op("Transpose", {v}, {{"perm", std::move(perm)}}); }
  ValueId swap_last(ValueId v, int64_t rank);

  /// p's outputs over these inputs.
  std::vector<ValueId> program(const expr::Program& p, std::span<const ValueId> inputs);
  /// The node's program over its own result and its operands from input `first` on; cast to the output's type without one.
  ValueId epilogue(ValueId in0, size_t first);

  Graph finish(const std::vector<ValueId>& outputs);  // none: an output that the node leaves out

 private:
  Graph g_;
  Node node_;
  std::vector<ValueId> inputs_;
  std::vector<std::optional<SymShape>> input_shapes_;
  std::vector<DType> types_;
};

}  // namespace smelt::ops
