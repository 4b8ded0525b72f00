// The graph every stage works on: values (typed, shaped edges; some constant) and nodes (operators in ONNX's terms, and
// the fused ones of domain ai.smelt). Nodes and values are named by index; indices stay valid as long as the graph
// lives, removed ones stay empty. Mutation goes through the methods, which keep readers and producers consistent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expr/program.h"
#include "smelt/tensor.h"

namespace smelt {

enum class NodeId : int32_t { none = -1 };
enum class ValueId : int32_t { none = -1 };  // as an input: an optional input left out
inline int32_t index(NodeId n) { return static_cast<int32_t>(n); }
inline int32_t index(ValueId v) { return static_cast<int32_t>(v); }

class Graph;
using GraphPtr = std::shared_ptr<Graph>;

using Attribute = std::variant<int64_t, float, std::string, Tensor, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, GraphPtr>;

/// A node of the model as it was given; fused nodes list the ones they stand for.
struct SourceNode {
  std::string name, op_type;
  std::vector<std::string> scopes;  // module path, outermost first: {"", "layer1", "layer1.0", "layer1.0.conv1"}
};

struct Value {
  std::string name;
  DType type = DType::undefined;
  std::optional<SymShape> shape;   // nothing: rank unknown
  Tensor constant;                 // valid() for initializers and folded values
  NodeId producer = NodeId::none;  // none for graph inputs, constants and captured values
  int output = 0;                  // which output of the producer
  bool is_constant() const { return constant.valid(); }
};

inline constexpr std::string_view onnx_domain = "";
inline constexpr std::string_view smelt_domain = "ai.smelt";
inline constexpr std::string_view microsoft_domain = "com.microsoft";
inline constexpr std::string_view ml_domain = "ai.onnx.ml";

struct Node {
  std::string domain, op, name;
  int opset = 0;                         // of its domain; semantics are those of Model::opset after import
  std::vector<ValueId> inputs, outputs;  // ValueId::none where an optional one is left out
  std::map<std::string, Attribute> attrs;
  std::optional<expr::Program> program;  // ai.smelt nodes: the epilogue or the region's body
  std::vector<int32_t> sources;          // indices into Graph::sources(): the ONNX nodes it stands for
  int64_t order = 0;                     // position among nodes; a fused node takes that of the last one it replaces
  bool alive = true;

  bool is(std::string_view op_, std::string_view domain_ = onnx_domain) const { return op == op_ && domain == domain_; }
  bool has(const std::string& attr) const { return attrs.contains(attr); }
  int64_t get_int(const std::string& attr, int64_t otherwise) const;
  float get_float(const std::string& attr, float otherwise) const;
  std::string get_string(const std::string& attr, std::string otherwise) const;
  std::vector<int64_t> get_ints(const std::string& attr, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> get_floats(const std::string& attr, std::vector<float> otherwise = {}) const;
  std::vector<std::string> get_strings(const std::string& attr) const;
  Tensor get_tensor(const std::string& attr) const;   // not valid() when absent
  GraphPtr get_graph(const std::string& attr) const;  // null when absent
  ValueId in(size_t i) const { return i < inputs.size() ? inputs[i] : ValueId::none; }
  ValueId out(size_t i = 0) const { return i < outputs.size() ? outputs[i] : ValueId::none; }
};

struct Use {
  NodeId node;
  int input;
  bool operator==(const Use&) const = default;
};

/// Bytes of constants that lie in a data file beside the model, so that a plan written there can point at them.
struct DataRange {
  std::shared_ptr<const void> bytes;  // the first one; kept alive, so that no other memory takes its address
  int64_t size = 0;
  std::string file;    // relative to the model's folder
  int64_t offset = 0;  // of the first byte in the file
};

/// What the model file says of itself; kept for the plan.
struct ModelInfo {
  std::string path;  // the file it was read from; empty when built in memory
  std::string producer, producer_version, domain, doc;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;        // domain → version, as the file had them
  std::map<std::string, std::string> metadata;  // metadata_props
  std::vector<DataRange> data;                  // external data that constants view
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph& g);
  Graph(Graph&& g) noexcept;
  Graph& operator=(const Graph& g);
  Graph& operator=(Graph&& g) noexcept;

  std::string name;
  ModelInfo model;  // of the main graph only

  // --- reading -------------------------------------------------------------------------------------------------
  const std::vector<ValueId>& inputs() const { return inputs_; }  // run-time inputs, not initializers
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const Value& value(ValueId v) const { return values_[static_cast<size_t>(v)]; }
  const Node& node(NodeId n) const { return nodes_[static_cast<size_t>(n)]; }
  size_t value_count() const { return values_.size(); }  // one past the largest id
  size_t node_count() const { return nodes_.size(); }
  size_t live_nodes() const;
  /// Live nodes in topological order, by `order` where there is a choice. Throws Error naming the nodes of a cycle.
  std::vector<NodeId> topological() const;
  /// A number that is smaller for a producer than for its readers, whatever has been changed: what lies on a path between two
  /// nodes has a number between theirs. It says no more, and changes with the graph. One thread at a time may ask. Throws as
  /// topological().
  int64_t position(NodeId n) const;
  /// The nodes that read it, each time that they do. Up to 64 of them are in the order in which they came to read it.
  std::span<const Use> readers(ValueId v) const { return readers_[static_cast<size_t>(v)]; }
  bool is_output(ValueId v) const;
  bool is_input(ValueId v) const;
  /// Producer of a node's i-th input; none when it has no producer or the input is left out.
  NodeId producer(NodeId n, size_t i) const;
  /// The one reader of v when it has exactly one and v is not a graph output; none otherwise.
  NodeId only_reader(ValueId v) const;
  ValueId find_value(std::string_view name) const;  // none when there is no such value
  NodeId find_node(std::string_view name) const;
  /// The constant tensor behind an input; not valid() when the input is absent or computed.
  const Tensor& constant(NodeId n, size_t i) const;
  std::vector<SourceNode>& sources() { return sources_; }
  const std::vector<SourceNode>& sources() const { return sources_; }

  // Control flow (If, Loop, Scan): the node's inputs are ONNX's formal inputs followed by the outer values its bodies
  // read; attribute "captured" counts the latter. A body's inputs are its formal inputs followed by one for each captured
  // value of the node, in the same order (every body of the node lists all of them).

  // --- building and changing -----------------------------------------------------------------------------------
  /// A fresh value; an empty or taken name is made unique.
  ValueId add_value(std::string name, DType type, std::optional<SymShape> shape);
  ValueId add_constant(std::string name, Tensor t);
  void add_input(ValueId v);
  void set_inputs(std::vector<ValueId> v);
  void add_output(ValueId v);
  void set_output(size_t i, ValueId v);
  void set_outputs(std::vector<ValueId> v);
  /// Adds a node; its outputs must have no producer yet. order 0: after all others.
  NodeId add_node(Node n);
  void set_input(NodeId n, size_t i, ValueId v);
  void set_inputs(NodeId n, std::vector<ValueId> inputs);
  void set_shape(ValueId v, std::optional<SymShape> shape) { mutable_value(v).shape = std::move(shape); }
  void set_type(ValueId v, DType type) { mutable_value(v).type = type; }
  void set_constant(ValueId v, Tensor t);  // v must have no producer
  void rename(ValueId v, const std::string& name);
  /// Every reader of `from`, and the graph's outputs, read `to` instead.
  void replace_uses(ValueId from, ValueId to);
  /// Detaches a node; its outputs lose their producer.
  void remove_node(NodeId n);
  /// Attributes, program, name, sources: everything of a node but its edges.
  Node& edit(NodeId n);
  /// Sources of `from` are added to `to` (no duplicates, in order).
  void merge_sources(NodeId to, NodeId from);
  void merge_sources(NodeId to, std::span<const NodeId> from);

 private:
  struct Index;  // what is kept so that no change and no question takes time that grows with the graph
  Index& index();
  Node& at(NodeId n) { return nodes_[static_cast<size_t>(n)]; }
  void read(Use use, ValueId v);
  void stop_reading(Use use);
  void count_output(ValueId v, int by);
  void edges_changed(NodeId n);
  void settle() const;
  Value& mutable_value(ValueId v) { return values_[static_cast<size_t>(v)]; }
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Use>> readers_;
  std::vector<ValueId> inputs_, outputs_;
  std::vector<SourceNode> sources_;
  std::map<std::string, ValueId, std::less<>> names_;
  std::map<std::string, int, std::less<>> suffixes_;  // the last number tried behind a taken name
  int64_t last_order_ = 0;
  std::unique_ptr<Index> index_;
};

/// A deep copy: subgraphs too; constant tensors share their bytes.
Graph clone(const Graph& g);

/// Checks every invariant; throws Error naming the first violated one and the node. Run after each rewrite.
///   edges: producers and readers agree, no dangling id, one producer a value, outputs defined, no cycle
///   types: every value that is read has an element type; constants match their value's type and shape
///   names: unique among live values
///   ai.smelt nodes: those rules of docs/fused-ops.md (input counts, the program's input and output types)
void verify(const Graph& g);

/// One line a node: "%7 conv1: f32[1, 64, 112, 112] = Conv(x, w, b) {strides=[2, 2]}  ← node_Conv_257", between a line with the
/// inputs and one with the outputs; for tests and `info --graph`.
std::string print(const Graph& g);
std::string print(const Graph& g, NodeId n);     // that node's line
std::string describe(const Graph& g, NodeId n);  // "'conv3' (Conv)"

}  // namespace smelt
