// Reads what export.h wrote: which calls are fused nodes, and which nodes of the model they stand for.
#include <fmt/core.h>

#include <algorithm>

#include "base/file.h"
#include "graph/fused.h"
#include "import/stages.h"
#include "import/to_proto.h"
#include "smelt/error.h"

namespace smelt::importer {

namespace {

bool has_program_smelt_reads(const onnx::NodeProto& call) {
  const auto* a = find_attribute(call, program_attribute);
  if (!a) return true;
  try {
    expr::Program::parse(a->s());
    return true;
  } catch (const Error&) {
    return false;  // a function of a later smelt: the body says what it computes
  }
}

bool is_plan(const onnx::ModelProto& model) {
  const auto& metadata = model.metadata_props();
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& e) { return e.key() == plan_version_key && e.value() == plan_version; });
}

/// What a function computes, without what names and describes it. Versions of ONNX's operators are compared apart.
std::string text_of(onnx::FunctionProto f) {
  f.clear_overload();
  f.clear_doc_string();
  f.clear_metadata_props();
  f.clear_value_info();
  for (auto& o : *f.mutable_opset_import())
    if (o.domain().empty()) o.clear_version();
  return f.SerializeAsString();
}

/// Plans are written in these versions; in others the same operators may mean something else.
bool has_plan_version(const onnx::FunctionProto& f) {
  return std::ranges::all_of(f.opset_import(), [](const auto& o) {
    return !o.domain().empty() || (o.version() >= oldest_plan_opset && o.version() <= newest_plan_opset);
  });
}

}  // namespace

std::string hash_of_graph(std::span<const uint8_t> graph, const onnx::ModelProto& model) {
  std::string versions;
  for (const auto& o : model.opset_import()) versions += fmt::format("{} {}\n", o.domain(), o.version());
  const uint64_t seed = hash_bytes(versions.data(), static_cast<int64_t>(versions.size()));
  return fmt::format("{:016x}", hash_words(graph.data(), static_cast<int64_t>(graph.size()), seed));
}

bool is_as_written(const onnx::ModelProto& model, std::span<const uint8_t> graph) {
  if (graph.empty() || !is_plan(model)) return false;
  const auto& metadata = model.metadata_props();
  const auto says = std::ranges::find_if(metadata, [](const auto& e) { return e.key() == plan_types_key; });
  return says != metadata.end() && says->value() == hash_of_graph(graph, model);
}

std::string fused_function(const onnx::NodeProto& call) { return call.op_type() + "\n" + call.overload(); }

FusedBodies::FusedBodies(const onnx::ModelProto& model, const ImportOptions& options) : expand_(options.expand) {
  if (!expand_ || !is_plan(model)) return;
  for (const auto& f : model.functions())
    if (f.domain() == smelt_domain) texts_[f.name() + "\n" + f.overload()] = has_plan_version(f) ? text_of(f) : std::string();
}

bool FusedBodies::agree(const Graph& g, NodeId node, const onnx::NodeProto& call) const {
  const auto text = texts_.find(fused_function(call));
  if (text == texts_.end()) return false;
  ExportOptions options;
  options.expand = expand_;
  try {
    return text_of(fused_body(g, node, options)) == text->second;
  } catch (const Error&) {
    return false;  // a node that no plan of smelt's has: the body says whether it can run
  }
}

bool is_fused_call(const onnx::ModelProto& model, const onnx::NodeProto& call, const ImportOptions& options) {
  if (call.domain() != smelt_domain || !is_fused_operator(call.op_type())) return false;
  if (options.supported && !options.supported(call.domain(), call.op_type())) return false;
  return is_plan(model) && has_program_smelt_reads(call);
}

std::optional<std::vector<SourceNode>> plan_sources(const onnx::NodeProto& node) {
  auto list = [&](const char* key) -> std::optional<std::vector<std::string>> {
    const auto* text = find_metadata(node, key);
    return text ? parse_python_list(*text) : std::nullopt;
  };
  const auto names = list(plan_sources_key), ops = list(plan_source_ops_key), scopes = list(plan_scopes_key);
  if (!names || !ops || !scopes || names->size() != ops->size() || names->size() != scopes->size()) return {};
  std::vector<SourceNode> out;
  for (size_t i = 0; i < names->size(); ++i)
    out.push_back({(*names)[i], (*ops)[i], parse_python_list((*scopes)[i]).value_or(std::vector<std::string>{})});
  return out;
}

}  // namespace smelt::importer
