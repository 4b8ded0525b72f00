// ONNX file → Graph. The graph has the newest opset's semantics, a type and shape on every value, and each node's origin in
// the file: its name, its operator and the exporter's module scopes.
//
//   parse → big tensors aside → check → inline local functions → infer → upgrade → expand functions → infer → Graph
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace smelt {

struct ImportOptions {
  /// Fixes the shapes of these inputs, by name ("--shapes=x:1x3x224x224"). A symbol that it binds is bound everywhere.
  std::map<std::string, Shape> shapes;
  /// True for the operators that can run as they are. Import expands others into the function body that ONNX's schema gives,
  /// and lists those without a body in an Error (unsupported). Empty: keeps every operator.
  std::function<bool(std::string_view domain, std::string_view op)> supported;
  /// Gives a fused node's definition in standard operators, as ExportOptions::expand. A plan's fused node then is one only where the
  /// function body in the file is that definition; otherwise the body replaces it, with a warning. Empty: they are not compared.
  std::function<Graph(const Graph&, NodeId)> expand;
  /// Constants whose data file is missing get their type and shape, over memory that reads as zeros and takes no room (info,
  /// explain). Otherwise a missing file is an error.
  bool structure_only = false;
  /// Runs ONNX's checker over the whole model first.
  bool check = true;
  /// The folder of external data. Empty: a model file uses its own folder, and one that comes as bytes may have no external data.
  std::filesystem::path folder;
  /// More nodes than this after inlining is an error: nested functions can grow exponentially.
  int64_t max_nodes = 500'000;
};

/// Reads a model, or a plan that smelt wrote (its ai.smelt nodes become fused nodes again). No byte of external data is copied:
/// constants view the mapped file. Throws Error: failed for a file that is not a valid model, unsupported for a model that needs
/// an operator, opset or type that smelt does not have.
Graph import_model(const std::filesystem::path& path, const ImportOptions& options = {});
/// The same from bytes; messages call the model `name`. The bytes may be freed after the call.
Graph import_model(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});

/// Where the bytes of a model's external data lie: no more of the model than its tensors is read, whatever its operators.
std::vector<DataRange> external_data_of(const std::filesystem::path& path);

/// The newest ONNX opset, which defines the nodes of an imported graph.
int64_t newest_opset();

}  // namespace smelt
