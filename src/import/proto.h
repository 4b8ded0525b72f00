// The data that the stages of the import share. Internal: the only header of smelt that includes ONNX's.
#pragma once

#include <google/protobuf/arena.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/sequence_outputs.h"
#include "import/import.h"

namespace smelt::importer {

/// A model whose big tensors are set aside: such a TensorProto keeps its name, type and dims, says that its data is external,
/// and names location "#k" for tensors[k]. So protos can be copied, checked and inferred without touching weights.
struct Loaded {
  std::string where;  // the file, for messages
  google::protobuf::Arena arena;
  // A model of 100,000 nodes is a million messages: in pieces of their own they lie in no cache when they are copied and freed.
  onnx::ModelProto& proto = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  std::vector<Tensor> tensors;
  std::vector<SourceNode> sources;        // a node's metadata entry source_key lists its indices: "3", "3,4"
  std::vector<SequenceOutput> sequences;  // that the model gives, in the order of the outputs that took their places
};

inline constexpr const char* source_key = "smelt.import.source";
inline constexpr int64_t inline_bytes = 1024;  // tensors up to this size stay in the proto: shape inference reads them

/// A list of nodes that lies where a graph's does: swapping the two moves no node.
class NodesBeside {
 public:
  explicit NodesBeside(const onnx::GraphProto& g)
      : nodes_(google::protobuf::Arena::CreateMessage<Nodes>(g.GetArena())), own_(g.GetArena() ? nullptr : nodes_) {}
  google::protobuf::RepeatedPtrField<onnx::NodeProto>& operator*() { return *nodes_; }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  Nodes* nodes_;
  std::unique_ptr<Nodes> own_;
};

/// Calls f for a graph and every graph nested in its nodes' attributes, outermost first.
void for_each_graph(onnx::GraphProto& graph, const std::function<void(onnx::GraphProto&)>& f);
/// The same for every node, graphs of function bodies included.
void for_each_node(onnx::ModelProto& model, const std::function<void(onnx::NodeProto&)>& f);
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
const std::string* find_metadata(const onnx::NodeProto& node, std::string_view key);
void set_metadata(onnx::NodeProto& node, const std::string& key, const std::string& value);

/// "'conv3' (Conv)", with the domain where it is not ONNX's own.
std::string describe(const onnx::NodeProto& node);
/// "f32[1, 3, 224, 224]", "seq(f32[?])"; "?" when the type says nothing.
std::string describe(const onnx::TypeProto& type);
/// One line of a message that may have several, as ONNX's exceptions do.
std::string one_line(std::string_view text);

/// The element type with ONNX's number; fails, naming `what`, for a number that smelt does not know.
DType dtype_of_onnx(int32_t type, const std::string& what);
/// The version of ONNX's own operators that the model imports.
int64_t opset_of(const onnx::ModelProto& model);

}  // namespace smelt::importer
