// Graph → ONNX file: the plan. Any runtime that reads ONNX runs it: fused nodes are calls of functions that the file holds,
// in standard operators. smelt reads it back as the graph it was.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "graph/graph.h"

namespace smelt {

inline constexpr int64_t oldest_plan_opset = 21, newest_plan_opset = 26;  // the newest that ONNX Runtime 1.31 accepts
inline constexpr int64_t plan_ir_version = 13;                            // as it does
inline constexpr const char* plan_version_key = "smelt.plan.version";
inline constexpr const char* plan_version = "1";

struct ExportOptions {
  /// A fused node's definition in standard operators: a graph whose inputs are the node's present inputs, in order, and whose
  /// outputs are its outputs. Needed when the graph has ai.smelt nodes.
  std::function<Graph(const Graph&, NodeId)> expand;
  /// Added to the file's metadata: tactics, timings, device.
  std::map<std::string, std::string> metadata;
  /// Writes every weight into a data file beside the plan. Otherwise a plan in the model's own folder points at the
  /// model's data file, and one elsewhere is an error if the model has such a file.
  bool copy_weights = false;
};

/// The folder of a file, links followed; of a bare name, the current one.
std::filesystem::path folder_of(const std::filesystem::path& file);
/// Throws Error (usage) where a plan written to `plan` would replace the model that it is made from. An empty model is no file.
void check_spares_model(const std::filesystem::path& plan, const std::filesystem::path& model);

/// What was written beside the plan; no name: nothing.
struct ExportedData {
  std::filesystem::path file;
  int64_t bytes = 0;
};

/// Writes `path`, and NAME.data beside it for constants that are big and in no file that the plan may point at. Both appear whole
/// or not at all. The same graph and options give the same bytes. Throws Error: usage where weights would have to be copied,
/// failed for a full disk or a missing permission.
ExportedData export_model(const Graph& g, const std::filesystem::path& path, const ExportOptions& options = {});
/// Throws the error of a plan that cannot point at weights: `bytes` of them lie in `file` beside the model.
[[noreturn]] void fail_far_weights(const std::filesystem::path& plan, int64_t bytes, const std::string& file);
/// The same as one message with everything in it, for models below 2 GB.
std::string export_bytes(const Graph& g, const ExportOptions& options = {});

}  // namespace smelt
