// Graph → ONNX file: the plan. Any runtime that reads ONNX can run it, since each fused node is a call of a function that the
// file defines in standard operators. smelt reads the file back as the graph that it was.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "graph/graph.h"
#include "import/weight_forms.h"

namespace smelt {

inline constexpr int64_t oldest_plan_opset = 21, newest_plan_opset = 26;  // the newest that ONNX Runtime 1.31 accepts
inline constexpr int64_t plan_ir_version = 13;                            // the newest that ONNX Runtime 1.31 accepts
inline constexpr const char* plan_version_key = "smelt.plan.version";
inline constexpr const char* plan_version = "1";
inline constexpr const char* plan_data_key = "smelt.plan.data";    // lines: the last bytes of a data file, a space, its name
inline constexpr const char* plan_types_key = "smelt.plan.types";  // a hash of the graph, whose values have their types
inline constexpr const char* plan_rewritten_key = "smelt.plan.rewritten";  // what the graph is at rest under; taken out of others
inline constexpr const char* data_seal = "smelt-data-";                    // they begin so; 16 digits of a hash follow

struct ExportOptions {
  /// Gives a fused node's definition in standard operators: a graph whose inputs are the node's present inputs, in order, and
  /// whose outputs are its outputs. Needed if the graph has ai.smelt nodes.
  std::function<Graph(const Graph&, NodeId)> expand;
  /// Added to the file's metadata: tactics, timings, device.
  std::map<std::string, std::string> metadata;
  /// Writes every weight into a data file beside the plan. Otherwise a plan in the model's own folder points at the model's
  /// data file; a plan in another folder is an error if the model has such a file.
  bool copy_weights = false;
  /// Written into the plan's own data file, of weights that it has too: of a weight in the model's file nobody would notice that
  /// it changed. In their order, as long as all together have at most max_form_bytes of these weights' bytes.
  std::vector<WeightForm> forms;
};
inline constexpr int64_t max_form_bytes = 2;  // times; the largest form of floats, Winograd's, has 16/9 of its weight

/// The folder of a file, with links followed; the current folder for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& file);
/// Throws Error (usage) if writing `plan` would replace the model that it is made from. An empty `model` means no file.
void check_spares_model(const std::filesystem::path& plan, const std::filesystem::path& model);

/// The data file that was written beside the plan; without a name, none was written.
struct ExportedData {
  std::filesystem::path file;
  int64_t bytes = 0, form_bytes = 0;  // all, and those of forms among them
};

/// Writes `path`, and NAME.data beside it for big constants that are in no file that the plan may point at. Both files appear
/// whole or not at all. The same graph and options give the same bytes. Throws Error: usage if weights would have to be copied,
/// failed for a full disk or a missing permission.
ExportedData export_model(const Graph& g, const std::filesystem::path& path, const ExportOptions& options = {});
/// Throws the error for a plan that cannot point at its weights: `bytes` of them lie in `file` beside the model.
[[noreturn]] void fail_far_weights(const std::filesystem::path& plan, int64_t bytes, const std::string& file);
/// The same in one message that holds all weights, for models below 2 GB.
std::string export_bytes(const Graph& g, const ExportOptions& options = {});

}  // namespace smelt
