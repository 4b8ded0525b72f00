// Graph → protos. The caller decides where the bytes of constants go.
#pragma once

#include "import/export.h"
#include "import/proto.h"

namespace smelt::importer {

/// Writes a constant's type, dims and bytes, or where the bytes are, into a proto that has its name.
using StoreTensor = std::function<void(const Tensor&, onnx::TensorProto&)>;

onnx::ModelProto to_proto(const Graph& g, const ExportOptions& options, const StoreTensor& store);

/// The function that a plan has for a fused node: its definition by `options.expand`, without an overload.
onnx::FunctionProto fused_body(const Graph& g, NodeId node, const ExportOptions& options);

/// Node metadata with a node's origin.
inline constexpr const char* plan_sources_key = "smelt.sources";        // names: ['node_Conv_257', 'node_relu_3']
inline constexpr const char* plan_source_ops_key = "smelt.source_ops";  // ['Conv', 'Relu']
inline constexpr const char* plan_scopes_key = "smelt.scopes";          // each one a list: ["['', 'layer1']", "[]"]
inline constexpr const char* program_attribute = "program";

}  // namespace smelt::importer
