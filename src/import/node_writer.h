// Nodes that take a node's place in its graph, and copies of a body's nodes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/stages.h"

namespace smelt::importer {

void set_int(onnx::NodeProto& n, const char* name, int64_t value);

class NodeWriter {
 public:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  using Renames = std::map<std::string, std::string>;
  explicit NodeWriter(onnx::ModelProto& model) : names_(model) {}

  /// From here on the nodes go to the end of `out`, and initializers to the graph.
  void write_to(onnx::GraphProto& g, Nodes& out) { graph_ = &g, out_ = &out; }
  std::string fresh(const std::string& base) { return names_.fresh(base); }

  void add(onnx::NodeProto n) { *out_->Add() = std::move(n); }
  /// A node in the place of `n`; `suffix` names one beside it.
  onnx::NodeProto& emit(const onnx::NodeProto& n, const char* op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& suffix = "");
  void emit_constant(const onnx::NodeProto& n, int32_t type, const std::vector<int64_t>& values, bool vector,
                     const std::string& to, const std::string& suffix = "");
  /// The name of a constant vector.
  std::string emit_vector(const onnx::NodeProto& n, const std::vector<int64_t>& values, const std::string& what);
  void emit_concat(const onnx::NodeProto& n, std::vector<std::string> items, int64_t axis, bool new_axis, const std::string& to,
                   const std::string& suffix = "");

  /// The body's initializers in the graph, for all copies of its nodes: their names by those in the body.
  Renames share_initializers(const onnx::NodeProto& n, const onnx::GraphProto& body);
  /// The body's nodes once more. `renames`: what the names of its inputs and initializers mean here; names of all others are added.
  void copy_nodes(const onnx::GraphProto& body, Renames& renames, const std::string& prefix);

 private:
  /// Names that the node makes become fresh ones; others that `renames` knows follow.
  void rename(onnx::NodeProto& n, Renames& renames, const std::string& prefix);
  void rename(onnx::GraphProto& g, Renames renames, const std::string& prefix);

  Names names_;
  onnx::GraphProto* graph_ = nullptr;
  Nodes* out_ = nullptr;
};

/// What the name is called in the copy.
inline const std::string& renamed(const std::string& name, const NodeWriter::Renames& renames) {
  const auto to = renames.find(name);
  return to == renames.end() ? name : to->second;
}

}  // namespace smelt::importer
